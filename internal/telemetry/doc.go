// Package telemetry is how RocketGPT is watched: structured logs without
// secrets, OpenTelemetry traces, and Prometheus metrics.
package telemetry
