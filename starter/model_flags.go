package main

import (
	"github.com/spf13/cobra"

	"github.com/rocketgpt/orchestrator/internal/control"
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

// warmth returns the temperature that was given, nil for none.
func (m *modelFlags) warmth() *float64 {
	if !m.cmd.Flags().Changed("temperature") {
		return nil
	}
	return &m.temperature
}

// check refuses a model that is not named as it has to be.
func (m *modelFlags) check() error {
	if m.model == "" {
		return nil
	}
	return control.CheckModel(m.model)
}
