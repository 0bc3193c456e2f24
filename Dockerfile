# syntax=docker/dockerfile:1.7
# Two images from one file: `docker build --target server` and `--target worker`.
# The server image holds the whole command line (rgpt); it migrates and serves.
# The worker image holds what runs need: git, bubblewrap and a Go toolchain.

FROM golang:1.26.8-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod go mod download
COPY . .
ARG REVISION=dev
ENV CGO_ENABLED=0
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    for program in starter:rgpt workers:rgpt-worker workers/sandbox:rgpt-sandbox; do \
      go build -trimpath -ldflags "-s -w -X github.com/rocketgpt/orchestrator/internal/version.Revision=${REVISION}" \
        -o "/out/${program#*:}" "./${program%%:*}" || exit 1; \
    done

# Both images share this stage. The user has a fixed number, so that volumes
# keep their owner when an image is rebuilt.
FROM debian:12.12-slim AS runtime
RUN apt-get update \
 && apt-get install -y --no-install-recommends bubblewrap ca-certificates curl git \
 && rm -rf /var/lib/apt/lists/* \
 && groupadd --gid 10001 rgpt \
 && useradd --uid 10001 --gid rgpt --create-home --shell /usr/sbin/nologin rgpt \
 && install -d -o rgpt -g rgpt -m 0700 /var/lib/rgpt \
 && install -d -o rgpt -g rgpt -m 0755 /run/rgpt
ENV RGPT_DATA_DIR=/var/lib/rgpt
WORKDIR /var/lib/rgpt
USER rgpt
VOLUME /var/lib/rgpt

FROM runtime AS server
COPY --from=build /out/rgpt /usr/local/bin/rgpt
EXPOSE 8080
ENTRYPOINT ["rgpt"]
CMD ["server", "--address", "0.0.0.0:8080"]

# A worker tests repositories, so it needs their toolchains. This one has Go. For
# others, build an image FROM this target and install them under /usr, /opt or in
# the PATH: the worker makes them visible in the sandbox by itself.
FROM runtime AS worker
COPY --from=build /usr/local/go /usr/local/go
ENV PATH=/usr/local/go/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
COPY --from=build /out/rgpt /out/rgpt-worker /out/rgpt-sandbox /usr/local/bin/
ENTRYPOINT ["rgpt-worker"]
CMD ["--ready-file", "/run/rgpt/ready"]
