# Fleetfold without its broker: `fleetfold serve`, or any other of its commands.
ARG BASE=python:3.11-slim
FROM ${BASE} AS build
WORKDIR /build
RUN python3 -m venv /opt/fleetfold
# What it needs comes first and by itself, so that a change of our code does not install it again.
COPY pyproject.toml ./
RUN python3 -c "import tomllib; print(*tomllib.load(open('pyproject.toml', 'rb'))['project']['dependencies'], sep='\n')" > needs.txt \
    && /opt/fleetfold/bin/pip install --quiet --no-cache-dir --prefer-binary -r needs.txt
COPY README.md ./
COPY events events
COPY projections projections
COPY consumers consumers
COPY api api
COPY fleetfold fleetfold
RUN /opt/fleetfold/bin/pip install --quiet --no-cache-dir --no-deps .

FROM ${BASE}
COPY --from=build /opt/fleetfold /opt/fleetfold
RUN useradd --uid 65532 --create-home --home-dir /data fleetfold
USER fleetfold
WORKDIR /data
ENV PATH=/opt/fleetfold/bin:$PATH PYTHONUNBUFFERED=1 FLEETFOLD_DATA=/data/fleetfold FLEETFOLD_HTTP=0.0.0.0:8470
VOLUME /data
EXPOSE 8470
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s \
    CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8470/fleet/v1/livez', timeout=4)"]
ENTRYPOINT ["fleetfold"]
CMD ["serve"]
