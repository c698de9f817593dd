"""Back-ends for NVIDIA's GPUs. Those in Triton are imported only where Triton runs: `kernels.path` knows."""
