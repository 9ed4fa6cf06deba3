# One Kafka node or one Redis, for development and demos: nothing here keeps data safe.
#   docker build -f docker/dev.Dockerfile -t spojoin-dev:dev .      docker run … broker      docker run … store
ARG BASE_IMAGE=python:3.11-slim

FROM ${BASE_IMAGE} AS server
# The JRE's set-up expects a folder that slim images lack. Its key store holds import times, which keystore.py removes.
RUN --mount=type=secret,id=ca --mount=type=bind,source=docker/step.sh,target=/run/step.sh \
    --mount=type=bind,source=docker/keystore.py,target=/run/keystore.py sh /run/step.sh ' \
    mkdir -p /usr/share/man/man1; \
    apt-get update; apt-get install --yes --no-install-recommends default-jre-headless redis-server; \
    python3 /run/keystore.py /etc/ssl/certs/java/cacerts'

FROM server AS files
RUN --mount=type=secret,id=ca --mount=type=bind,source=docker/step.sh,target=/run/step.sh sh /run/step.sh \
    'apt-get update; apt-get install --yes --no-install-recommends ivy'
COPY services/spojoin /source/spojoin
# A repository to use in place of Maven Central.
ARG SPOJOIN_MAVEN_URL
RUN --mount=type=secret,id=ca --mount=type=bind,source=docker/step.sh,target=/run/step.sh sh /run/step.sh \
    'SPOJOIN_CACHE_FOLDER=/cache PYTHONPATH=/source python3 -c \
    "from spojoin.local.jars import kafka_jars; kafka_jars().rename(\"/opt/kafka\")"'
COPY services/spojoin/__init__.py services/spojoin/version.py services/spojoin/errors.py /opt/dev/spojoin/
COPY services/spojoin/local/__init__.py services/spojoin/local/broker_config.py /opt/dev/spojoin/local/
COPY docker/dev.py /opt/dev/
RUN --mount=type=secret,id=ca --mount=type=bind,source=docker/step.sh,target=/run/step.sh sh /run/step.sh \
    'find /opt/dev -exec touch {} +'

FROM server
COPY --from=files /opt/kafka /opt/kafka
COPY --from=files /opt/dev /opt/dev
ENV PYTHONDONTWRITEBYTECODE=1
RUN --mount=type=secret,id=ca --mount=type=bind,source=docker/step.sh,target=/run/step.sh sh /run/step.sh \
    'mkdir /data; chown 10001:10001 /data'
USER 10001:10001
EXPOSE 9092 6379
ENTRYPOINT ["python3", "/opt/dev/dev.py"]
CMD ["broker"]
