package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// Ready describes a running server, in the ready file and in the line on standard output.
type Ready struct {
	PID     int    `json:"pid"`
	Address string `json:"address"`           // gRPC frontend, host:port
	UI      string `json:"ui,omitempty"`      // URL; absent with --headless
	HTTP    string `json:"http"`              // URL of Temporal's HTTP API
	Metrics string `json:"metrics,omitempty"` // URL; absent without --metrics-port
	Store   string `json:"store"`             // "memory", "sqlite" or "postgres"
	Version string `json:"version"`           // of Temporal's server
}

// Line returns the human-readable form.
func (r Ready) Line() string {
	line := fmt.Sprintf("Temporal server %s (%s) is ready at %s, HTTP API at %s", r.Version, r.Store, r.Address, r.HTTP)
	if r.UI != "" {
		line += ", Web UI at " + r.UI
	}
	return line
}

// writeReadyFile writes r to the file atomically, so a reader that polls for the file never sees a
// partial one.
func writeReadyFile(file string, r Ready) error {
	content, err := json.Marshal(r)
	if err != nil {
		return err
	}
	temporary, err := os.CreateTemp(filepath.Dir(file), filepath.Base(file)+".*")
	if err != nil {
		return fmt.Errorf("writing the ready file %s: %w: choose a --ready-file in an existing, writable directory", file, err)
	}
	defer os.Remove(temporary.Name()) // fails after the rename, as expected
	_, err = temporary.Write(append(content, '\n'))
	if closeErr := temporary.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Chmod(temporary.Name(), 0o644)
	}
	if err == nil {
		err = os.Rename(temporary.Name(), file)
	}
	if err != nil {
		return fmt.Errorf("writing the ready file %s: %w", file, err)
	}
	return nil
}

// removeReadyFile removes the file of an earlier server, so the file exists only if this server is
// ready.
func removeReadyFile(file string) error {
	if err := os.Remove(file); err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("removing the ready file %s left by an earlier server: %w", file, err)
	}
	return nil
}
