package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/model"
	"github.com/rocketgpt/orchestrator/internal/store"
)

// logEntry is one thing that was said or done in a run.
type logEntry struct {
	Phase   contract.Phase `json:"phase"`
	Step    string         `json:"step,omitempty"`
	Attempt int            `json:"attempt"`
	Turn    int            `json:"turn,omitempty"`
	Role    string         `json:"role"`
	Text    string         `json:"text"`
}

func newRunLogs(a *app) *cobra.Command {
	var phase, step string
	cmd := &cobra.Command{
		Use: "logs RUN", Short: "Show what was said and done: conversations of agents and output of checks", Args: oneRun,
		Example: `  rgpt run logs 42
  rgpt run logs 42 --phase builder --step step-001`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := oneOf("phase", contract.Phase(phase), contract.Phases()); err != nil {
				return err
			}
			return a.withRun(cmd.Context(), args[0], needArtifacts, func(h house, d store.RunDetails) error {
				if err := a.printConversations(cmd.Context(), h, d.ID, phase, step); err != nil {
					return err
				}
				if step != "" || (phase != "" && phase != string(contract.PhaseTester)) {
					return nil
				}
				return a.printOutputs(cmd.Context(), h, d)
			})
		},
	}
	cmd.Flags().StringVar(&phase, "phase", "", "only of this phase")
	cmd.Flags().StringVar(&step, "step", "", "only of this step")
	complete(cmd, "phase", contract.Phases())
	return cmd
}

// printConversations prints what agents said and did.
func (a *app) printConversations(ctx context.Context, h house, id int64, phase, step string) error {
	list, err := h.Conversations(ctx, id, contract.Phase(phase), step)
	if err != nil {
		return err
	}
	for _, c := range list {
		for _, entry := range c.Entries {
			a.printLog(logEntry{Phase: c.Phase, Step: c.Step, Attempt: c.Attempt, Turn: entry.Turn, Role: entry.Role, Text: said(entry.Content)})
		}
	}
	return nil
}

// printOutputs prints what checks printed.
func (a *app) printOutputs(ctx context.Context, h house, d store.RunDetails) error {
	for _, f := range d.Artifacts {
		if f.Type != contract.ArtifactLog {
			continue
		}
		text, err := readFile(ctx, h, f)
		if err != nil {
			return fmt.Errorf("read %s: %w", f.Name, err)
		}
		a.printLog(logEntry{Phase: contract.PhaseTester, Step: f.Name, Role: "output", Text: string(text)})
	}
	return nil
}

// readFile reads a file of a run.
func readFile(ctx context.Context, h house, f contract.Artifact) ([]byte, error) {
	r, err := h.File(ctx, f)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}

// said returns a message of a conversation as text.
func said(content json.RawMessage) string {
	var m model.Message
	if json.Unmarshal(content, &m) != nil {
		return string(content)
	}
	parts := []string{m.Text}
	for _, c := range m.ToolCalls {
		parts = append(parts, "→ "+c.Name+" "+c.Arguments)
	}
	return strings.TrimSpace(strings.Join(parts, "\n"))
}

func (a *app) printLog(e logEntry) {
	if a.json {
		if raw, err := json.Marshal(e); err == nil {
			fmt.Fprintln(a.out, string(raw))
		}
		return
	}
	where := string(e.Phase)
	if e.Step != "" {
		where += " " + clean(e.Step)
	}
	for _, line := range strings.Split(strings.TrimRight(e.Text, "\n"), "\n") {
		fmt.Fprintf(a.out, "%s #%d.%d %-9s %s\n", where, e.Attempt, e.Turn, e.Role, cleanLine(line))
	}
}
