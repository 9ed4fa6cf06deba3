# All Python services; an argument names the role:  docker run … spojoin service router
#   docker build -f docker/services.Dockerfile -t spojoin:dev .
# BASE_IMAGE may be any Debian with Python 3.11, for example a site's own base.
ARG BASE_IMAGE=python:3.11-slim

FROM ${BASE_IMAGE} AS build
# The build compiles kernels for all machines with these instructions: x86-64-v3 is AVX2, x86-64-v4 is AVX-512.
ARG CPU_NAME=x86-64-v3
# Equal sources make equal bytes: sets of texts compile in one order, archives hold one time, and bytecode refers to its
# source by a hash, not by a time.
ENV NUMBA_CPU_NAME=${CPU_NAME} NUMBA_CPU_FEATURES="" NUMBA_CACHE_DIR=/opt/spojoin/kernels \
    PYTHONHASHSEED=0 SOURCE_DATE_EPOCH=315532800
RUN --mount=type=secret,id=ca --mount=type=bind,source=docker/step.sh,target=/run/step.sh sh /run/step.sh \
    'apt-get update; apt-get install --yes --no-install-recommends binutils'
WORKDIR /source
# The index from which pip fetches. It is an ARG, so no address stays in the image.
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
# The kernels' cache holds the times of their sources, so it comes after the step that sets these times.
RUN --mount=type=secret,id=ca --mount=type=bind,source=docker/step.sh,target=/run/step.sh sh /run/step.sh \
    '/opt/spojoin/bin/python -m spojoin.embedded.warm_up'

FROM ${BASE_IMAGE}
ARG CPU_NAME=x86-64-v3
COPY --from=build /opt/spojoin /opt/spojoin
# The root file system may be read-only, so services link the kernels into a folder that they may write.
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
