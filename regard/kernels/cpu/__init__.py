"""Back-ends for CPUs: C, oneDNN, packed weights; and where compiled code is kept."""
