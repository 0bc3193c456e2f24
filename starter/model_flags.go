package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/setup"
)

// modelFlags are the flags by which commands take another model.
type modelFlags struct {
	model       string
	temperature float64
	cmd         *cobra.Command
}

// add gives a command the flags; model and temperature say what they are for.
func (m *modelFlags) add(cmd *cobra.Command, model, temperature string) {
	m.cmd = cmd
	cmd.Flags().StringVar(&m.model, "model", "", model)
	cmd.Flags().Float64Var(&m.temperature, "temperature", 0, temperature)
}

// choice returns the model that the flags name, nil where none was given. A
// temperature alone changes that of the model that there was.
func (m *modelFlags) choice(cfg *config.Config, was contract.ModelChoice) (*contract.ModelChoice, error) {
	warmth := m.cmd.Flags().Changed("temperature")
	if m.model == "" && !warmth {
		return nil, nil
	}
	chosen := was
	if m.model != "" {
		var err error
		if chosen, err = parseModel(cfg, m.model); err != nil {
			return nil, err
		}
	}
	if warmth {
		chosen.Temperature = &m.temperature
	}
	return &chosen, nil
}

// parseModel reads the model that a flag names as provider/model. It has the
// time-out of its provider.
func parseModel(cfg *config.Config, flag string) (contract.ModelChoice, error) {
	provider, name, ok := strings.Cut(flag, "/")
	if !ok || provider == "" || name == "" {
		return contract.ModelChoice{}, usageError{fmt.Errorf("--model %q is not of the form provider/model", flag)}
	}
	if _, known := cfg.Models.Providers[provider]; !known {
		return contract.ModelChoice{}, usageError{fmt.Errorf("no model provider is called %q; see rgpt models", provider)}
	}
	return setup.Timed(cfg, contract.ModelChoice{Provider: provider, Model: name}), nil
}
