# All Python services, the role by argument:  docker run … spojoin service router    The load generator is not in here.
#   docker build -f docker/services.Dockerfile -t spojoin:dev .
# BASE_IMAGE is any Debian with Python 3.11, for sites with a base of their own.
ARG BASE_IMAGE=python:3.11-slim

FROM ${BASE_IMAGE} AS build
# Kernels are compiled here, for every machine that has these instructions: x86-64-v3 is AVX2, x86-64-v4 AVX-512.
ARG CPU_NAME=x86-64-v3
# Sets of texts are compiled in one order, archives have one time, and bytecode knows its source by a hash in place of its
# time: the same sources make the same bytes.
ENV NUMBA_CPU_NAME=${CPU_NAME} NUMBA_CPU_FEATURES="" NUMBA_CACHE_DIR=/opt/spojoin/kernels \
    PYTHONHASHSEED=0 SOURCE_DATE_EPOCH=315532800
RUN --mount=type=secret,id=ca --mount=type=bind,source=docker/step.sh,target=/run/step.sh sh /run/step.sh \
    'apt-get update; apt-get install --yes --no-install-recommends binutils'
WORKDIR /source
# Where pip fetches from, in place of its default: ARG alone, so that no address stays in the image.
ARG PIP_INDEX_URL
COPY docker/services.lock docker/build.lock docker/
RUN --mount=type=secret,id=ca --mount=type=bind,source=docker/step.sh,target=/run/step.sh sh /run/step.sh ' \
    python3 -m venv /opt/spojoin; python3 -m venv /opt/build; \
    /opt/spojoin/bin/pip install --no-cache-dir --require-hashes --requirement docker/services.lock; \
    /opt/build/bin/pip install --no-cache-dir --require-hashes --requirement docker/build.lock'
COPY pyproject.toml hatch_build.py README.md LICENSE ./
COPY protos protos
COPY services services
COPY docker/slim.py docker/
RUN --mount=type=secret,id=ca --mount=type=bind,source=docker/step.sh,target=/run/step.sh sh /run/step.sh ' \
    /opt/build/bin/pip wheel --no-deps --no-build-isolation --wheel-dir /wheels .; \
    /opt/spojoin/bin/pip install --no-cache-dir --no-deps /wheels/*.whl; \
    python3 docker/slim.py /opt/spojoin'
# The kernels' cache names the times of their sources, which that step has settled.
RUN --mount=type=secret,id=ca --mount=type=bind,source=docker/step.sh,target=/run/step.sh sh /run/step.sh \
    '/opt/spojoin/bin/python -m spojoin.embedded.warm_up'

FROM ${BASE_IMAGE}
ARG CPU_NAME=x86-64-v3
COPY --from=build /opt/spojoin /opt/spojoin
# The root file system may be read-only: kernels are linked to where they can be written to.
ENV PATH=/opt/spojoin/bin:${PATH} \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    NUMBA_CPU_NAME=${CPU_NAME} \
    NUMBA_CPU_FEATURES="" \
    NUMBA_CACHE_DIR=/tmp/kernels \
    SPOJOIN_KERNELS=/opt/spojoin/kernels \
    SPOJOIN_METRICS_HOST=0.0.0.0 \
    SPOJOIN_METRICS_PORT=8080 \
    HOME=/tmp
USER 10001:10001
EXPOSE 8080
ENTRYPOINT ["/opt/spojoin/bin/spojoin"]
CMD ["--help"]
