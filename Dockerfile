# Regard in a container, with the page on port 8000. Two forms:
#
#   docker build --target cpu  -t regard:cpu  --build-arg TORCH_INDEX=ADDRESS .      # PyTorch's "Get Started" page has
#   docker build --target cuda -t regard:cuda .                                      # the address of its CPU wheels
#
#   docker run --rm -v "$PWD:/home/regard/work" regard:cpu train lm notes.txt --minutes 2
#   docker run --rm --gpus all -v "$PWD:/home/regard/work" regard:cuda info
#   docker run --rm -p 127.0.0.1:8000:8000 -e REGARD_TOKEN regard:cpu serve --host 0.0.0.0
#
# torch's wheels bring CUDA themselves: the host gives the driver, through NVIDIA's container toolkit.

ARG PYTHON=3.13
FROM python:${PYTHON}-slim AS wheel
WORKDIR /build
COPY . .
# hadolint ignore=DL3042
RUN --mount=type=cache,target=/root/.cache/pip \
    pip wheel --no-deps --build-constraint constraints.txt --wheel-dir /wheels .

FROM python:${PYTHON}-slim AS base
# Kernels are compiled where they run: Regard's for the CPU, and Triton's launchers.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends gcc libc6-dev \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home --uid 1000 regard \
    && install --directory --owner=regard /home/regard/work
COPY constraints.txt /constraints.txt
COPY --from=wheel /wheels /wheels
WORKDIR /home/regard/work
EXPOSE 8000
ENTRYPOINT ["regard"]
CMD ["--help"]

FROM base AS cpu
ARG TORCH_INDEX
# hadolint ignore=DL3042
RUN --mount=type=cache,target=/root/.cache/pip \
    pip install ${TORCH_INDEX:+--extra-index-url "$TORCH_INDEX"} --constraint /constraints.txt \
        "$(sed -n 's/^torch==.*/&/p' /constraints.txt)${TORCH_INDEX:++cpu}" \
    && pip install --constraint /constraints.txt "$(echo /wheels/regard-*.whl)[web]"
USER 1000

FROM base AS cuda
ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility
# hadolint ignore=DL3042
RUN --mount=type=cache,target=/root/.cache/pip \
    pip install --constraint /constraints.txt "$(echo /wheels/regard-*.whl)[web]"
USER 1000
