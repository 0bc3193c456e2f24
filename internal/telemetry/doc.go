// Package telemetry makes RocketGPT observable: structured logs without secrets,
// OpenTelemetry traces, and Prometheus metrics.
package telemetry
