package model

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/rocketgpt/orchestrator/contract"
)

// Deterministic reports whether a request asks for the most likely response: at temperature 0, which
// the model must accept.
func (r Request) Deterministic(entry CatalogueEntry) bool {
	return r.Choice.Temperature != nil && *r.Choice.Temperature == 0 && !entry.Can(CapabilityFixedTemperature)
}

// Digest returns the digest of everything in a request that its response depends on, and of the
// endpoint that it is sent to: two requests with the same digest are identical for the model. On whose
// behalf a request is made is not part of it.
func (r Request) Digest(endpoint ...string) (string, error) {
	whole := struct {
		Endpoint        []string
		Provider, Model string
		Temperature     *float64
		Effort          contract.Effort
		Messages        []Message
		Tools           []Tool
		Schema          *Schema
		Strict          bool
		MaxOutput       int64
	}{
		endpoint, r.Choice.Provider, r.Choice.Model, r.Choice.Temperature, r.Choice.Effort,
		r.Messages, r.Tools, r.Schema, r.Strict, r.MaxOutput,
	}
	raw, err := json.Marshal(whole)
	if err != nil {
		return "", fmt.Errorf("compute the digest of a request: %w", err)
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:]), nil
}
