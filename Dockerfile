# The command line and the service. docs/maintaining.md has examples.
ARG PYTHON=3.13

FROM python:${PYTHON}-slim-bookworm AS build
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends gcc libc6-dev \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY pyproject.toml setup.py MANIFEST.in README.md CHANGELOG.md LICENSE ./
COPY parquet_bloom parquet_bloom
ARG EXTRAS=delta,iceberg,orc,s3,serve
RUN python -m venv /opt/parquet-bloom \
    && /opt/parquet-bloom/bin/pip install --no-cache-dir ".[${EXTRAS}]"

FROM python:${PYTHON}-slim-bookworm
COPY --from=build /opt/parquet-bloom /opt/parquet-bloom
ENV PATH=/opt/parquet-bloom/bin:$PATH PYTHONDONTWRITEBYTECODE=1
# A number, so that Kubernetes can tell that it is not root.
RUN useradd --uid 10001 --no-create-home --shell /usr/sbin/nologin parquet-bloom
USER 10001:10001
WORKDIR /data
EXPOSE 8080
ENTRYPOINT ["parquet-bloom"]
CMD ["--help"]
