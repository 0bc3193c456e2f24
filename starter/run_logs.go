package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/backend"
	"github.com/rocketgpt/orchestrator/internal/model"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/views"
	"github.com/rocketgpt/orchestrator/internal/terminal"
)

// logEntry is one message or output of a run.
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
	var environment, follow bool
	cmd := &cobra.Command{
		Use: "logs RUN", Short: "Show agent conversations and check output", Args: oneRun,
		Example: `  rgpt run logs 42
  rgpt run logs 42 --phase builder --step step-001
  rgpt run logs 42 --environment
  rgpt run logs 42 --follow`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if selected := phase != "" || step != ""; selected && (environment || follow) || environment && follow {
				return usageError{fmt.Errorf("--environment and --follow cannot be combined with each other or with --phase or --step")}
			}
			if follow {
				return a.followOutput(cmd.Context(), args[0])
			}
			if err := oneOf("phase", contract.Phase(phase), contract.Phases()); err != nil {
				return err
			}
			return a.withRun(cmd.Context(), args[0], backend.NeedArtifacts, func(h backend.Backend, d views.RunDetails) error {
				if environment {
					return a.printSetupLogs(cmd.Context(), h, d)
				}
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
	cmd.Flags().StringVar(&phase, "phase", "", "only this phase")
	cmd.Flags().StringVar(&step, "step", "", "only this step")
	cmd.Flags().BoolVar(&environment, "environment", false, "only setup logs")
	cmd.Flags().BoolVar(&follow, "follow", false, "print the output of setup, checks and commands live, until the run ends")
	complete(cmd, "phase", contract.Phases())
	return cmd
}

// printConversations prints the conversations of agents.
func (a *app) printConversations(ctx context.Context, h backend.Backend, id int64, phase, step string) error {
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

// printOutputs prints the output of checks.
func (a *app) printOutputs(ctx context.Context, h backend.Backend, d views.RunDetails) error {
	for _, f := range d.Artifacts {
		if f.Type != contract.ArtifactLog || isSetupLog(f) {
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
func readFile(ctx context.Context, h backend.Backend, f contract.Artifact) ([]byte, error) {
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
		where += " " + terminal.Clean(e.Step)
	}
	for _, line := range strings.Split(strings.TrimRight(e.Text, "\n"), "\n") {
		fmt.Fprintf(a.out, "%s #%d.%d %-9s %s\n", where, e.Attempt, e.Turn, e.Role, terminal.CleanLine(line))
	}
}

// isSetupLog reports whether a file is a setup log.
func isSetupLog(f contract.Artifact) bool {
	ok, err := path.Match("environment/*/setup.log", f.Name)
	return ok && err == nil
}

// printSetupLogs prints the logs of the setups that a run performed.
func (a *app) printSetupLogs(ctx context.Context, h backend.Backend, d views.RunDetails) error {
	found := false
	for _, f := range d.Artifacts {
		if !isSetupLog(f) {
			continue
		}
		found = true
		text, err := readFile(ctx, h, f)
		switch {
		case err != nil:
			return fmt.Errorf("read %s: %w", f.Name, err)
		case a.json:
			a.printLog(logEntry{Step: f.Name, Role: "output", Text: string(text)})
		default:
			fmt.Fprintf(a.out, "%s\n%s\n", terminal.Clean(f.Name), terminal.CleanLines(strings.TrimRight(string(text), "\n")))
		}
	}
	if found {
		return nil
	}
	why := "this run did not build its environment"
	if d.Run.Environment != "" {
		if e, err := h.Environment(ctx, d.Run.Environment); err == nil && e.RunID != 0 && e.RunID != d.ID {
			why = fmt.Sprintf("its environment was built by run %d; see rgpt run logs %d --environment", e.RunID, e.RunID)
		}
	}
	fmt.Fprintf(a.errs, "Note: run %d has no setup log: %s\n", d.ID, why)
	return nil
}

// followOutput prints the output of a run's commands as it arrives, until the run ends.
func (a *app) followOutput(ctx context.Context, arg string) error {
	id, err := runID(arg)
	if err != nil {
		return err
	}
	return a.with(ctx, 0, func(b backend.Backend) error { return a.followRun(ctx, b, id) })
}

// outputSource provides a run and its output.
type outputSource interface {
	Run(ctx context.Context, id int64) (store.Run, error)
	LiveOutput(ctx context.Context, id, after int64, limit int) ([]views.Output, error)
}

// followRun prints the output of a run until it has ended. It pauses between requests, except after
// a full page.
func (a *app) followRun(ctx context.Context, h outputSource, id int64) error {
	lines := outputLines{a: a, open: map[string]string{}}
	defer lines.end()
	for after := int64(0); ; {
		// Check first whether the run has ended, so that its last output is not missed.
		run, err := withRetries(ctx, func() (store.Run, error) { return h.Run(ctx, id) })
		if err != nil {
			return err
		}
		pieces, err := withRetries(ctx, func() ([]views.Output, error) { return h.LiveOutput(ctx, id, after, outputPage) })
		if err != nil {
			return err
		}
		for _, p := range pieces {
			lines.print(p)
			after = p.ID
		}
		if len(pieces) == outputPage {
			continue
		}
		if run.Status.Terminal() {
			return nil
		}
		select {
		case <-ctx.Done():
			return ended{exitError}
		case <-time.After(outputPoll):
		}
	}
}

// outputLines prints pieces of output as lines, each with its source.
type outputLines struct {
	a    *app
	open map[string]string // the unfinished line of each source
}

// maxOpenLine is the length above which an unfinished line is printed.
const maxOpenLine = 8 << 10

func (o *outputLines) print(p views.Output) {
	if o.a.json {
		if raw, err := json.Marshal(p); err == nil {
			fmt.Fprintln(o.a.out, string(raw))
		}
		return
	}
	text := o.open[p.Source] + p.Text
	for {
		line, rest, ended := strings.Cut(text, "\n")
		if !ended {
			break
		}
		o.line(p.Source, line)
		text = rest
	}
	if len(text) > maxOpenLine {
		o.line(p.Source, text)
		text = ""
	}
	o.open[p.Source] = text
}

func (o *outputLines) line(source, text string) {
	fmt.Fprintf(o.a.out, "%s  %s\n", terminal.Clean(source), terminal.CleanLine(text))
}

// end prints the unfinished lines.
func (o *outputLines) end() {
	for _, source := range slices.Sorted(maps.Keys(o.open)) {
		if text := o.open[source]; text != "" {
			o.line(source, text)
		}
	}
}
