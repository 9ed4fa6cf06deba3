# The load generator, with PySpark's feed and completeness check:  docker run … spojoin-spark -m loadgen produce …
# Backfills on Spark, in one process or as driver and executors on Kubernetes:  … spojoin-spark -m spojoin.cli.main backfill …
#   docker build -f docker/spark.Dockerfile -t spojoin-spark:dev .
ARG BASE_IMAGE=python:3.11-slim

FROM ${BASE_IMAGE} AS java
# The JRE's set-up expects a folder that slim images lack. Its key store holds import times, which keystore.py removes.
RUN --mount=type=secret,id=ca --mount=type=bind,source=docker/step.sh,target=/run/step.sh \
    --mount=type=bind,source=docker/keystore.py,target=/run/keystore.py sh /run/step.sh ' \
    mkdir -p /usr/share/man/man1; \
    apt-get update; apt-get install --yes --no-install-recommends default-jre-headless procps; \
    python3 /run/keystore.py /etc/ssl/certs/java/cacerts'

FROM java AS build
# As in services.Dockerfile, equal sources make equal bytes.
ENV PYTHONHASHSEED=0 SOURCE_DATE_EPOCH=315532800
WORKDIR /source
# The index from which pip fetches. It is an ARG, so no address stays in the image.
ARG PIP_INDEX_URL
COPY docker/spark.lock docker/build.lock docker/
RUN --mount=type=secret,id=ca --mount=type=bind,source=docker/step.sh,target=/run/step.sh sh /run/step.sh ' \
    python3 -m venv /opt/spojoin; python3 -m venv /opt/build; \
    /opt/spojoin/bin/pip install --no-cache-dir --require-hashes --requirement docker/spark.lock; \
    /opt/build/bin/pip install --no-cache-dir --require-hashes --requirement docker/build.lock'
COPY pyproject.toml hatch_build.py README.md LICENSE ./
COPY protos protos
COPY services services
COPY loadgen loadgen
RUN --mount=type=secret,id=ca --mount=type=bind,source=docker/step.sh,target=/run/step.sh sh /run/step.sh ' \
    /opt/build/bin/pip wheel --no-deps --no-build-isolation --wheel-dir /wheels . ./loadgen; \
    /opt/spojoin/bin/pip install --no-cache-dir --no-deps /wheels/*.whl'
# The image holds the connector's jars, so that a container fetches nothing. They come from Maven Central or the named
# repository. Ivy notes the times at which it fetched them; sed removes these.
ARG SPOJOIN_MAVEN_URL
RUN --mount=type=secret,id=ca --mount=type=bind,source=docker/step.sh,target=/run/step.sh sh /run/step.sh ' \
    SPOJOIN_CACHE_FOLDER=/opt/cache PYTHONDONTWRITEBYTECODE=1 \
    /opt/spojoin/bin/python -c "from loadgen.load.spark import start; start(progress=print).stop()"; \
    find /opt/cache/ivy -name "*.xml" -exec sed --in-place --regexp-extended \
    "s/(publication|pubdate|date)=\"[0-9]+\"/\1=\"19800101000000\"/; s/ time=\"[0-9]+\"/ time=\"0\"/" {} +'
COPY docker/spark-entrypoint.sh docker/submitted.py /opt/spojoin/
# Spark's path, for any version of the base's Python.
RUN --mount=type=secret,id=ca --mount=type=bind,source=docker/step.sh,target=/run/step.sh sh /run/step.sh ' \
    touch /opt/spojoin/spark-entrypoint.sh /opt/spojoin/submitted.py; \
    ln -s "$(/opt/spojoin/bin/python -c "import os, pyspark; print(os.path.dirname(pyspark.__file__))")" /opt/spark'

FROM java
COPY --from=build /opt/spojoin /opt/spojoin
COPY --from=build /opt/cache /opt/cache
COPY --from=build /opt/spark /opt/spark
ENV PATH=/opt/spojoin/bin:${PATH} \
    SPARK_HOME=/opt/spark \
    PYSPARK_PYTHON=/opt/spojoin/bin/python \
    PYSPARK_DRIVER_PYTHON=/opt/spojoin/bin/python \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    NUMBA_CACHE_DIR=/tmp/kernels \
    SPOJOIN_CACHE_FOLDER=/opt/cache \
    HOME=/tmp
# Spark asks the system for the name and home of its user.
RUN --mount=type=secret,id=ca --mount=type=bind,source=docker/step.sh,target=/run/step.sh sh /run/step.sh \
    'groupadd --gid 10001 spojoin; useradd --uid 10001 --gid 10001 --home-dir /tmp --no-create-home --shell /usr/sbin/nologin spojoin'
USER 10001:10001
ENTRYPOINT ["/bin/sh", "/opt/spojoin/spark-entrypoint.sh"]
CMD ["-m", "loadgen", "--help"]
