package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/backend"
	"github.com/rocketgpt/orchestrator/internal/control"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/feed"
	"github.com/rocketgpt/orchestrator/internal/terminal"
)

func newPipelineList(a *app) *cobra.Command {
	var f store.PipelineFilter
	var statuses []string
	cmd := &cobra.Command{
		Use: "list", Short: "List pipelines, newest first", Args: noArgs,
		Example: `  rgpt pipeline list --status COMPLETED
  rgpt pipeline list --text caching --limit 5 --json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.Limit < 1 {
				return usageError{fmt.Errorf("--limit %d is too small; must be at least 1", f.Limit)}
			}
			f.Status = nil
			for _, text := range statuses {
				status := contract.PipelineStatus(strings.ToUpper(text))
				if err := oneOf("status", status, contract.PipelineStatuses()); err != nil {
					return err
				}
				f.Status = append(f.Status, status)
			}
			return a.with(cmd.Context(), 0, func(h backend.Backend) error {
				list, err := h.ListPipelines(cmd.Context(), f)
				if err == nil {
					a.printPipelines(list)
				}
				return err
			})
		},
	}
	cmd.Flags().StringSliceVar(&statuses, "status", nil, "only pipelines with one of these statuses, such as COMPLETED")
	cmd.Flags().StringVar(&f.Text, "text", "", "only pipelines with this text in the objective")
	cmd.Flags().Int64Var(&f.RunID, "run", 0, "only pipelines that plan this run")
	cmd.Flags().IntVar(&f.Limit, "limit", 50, "maximum number of results")
	complete(cmd, "status", contract.PipelineStatuses())
	return cmd
}

func (a *app) printPipelines(list []store.Pipeline) {
	printList(a, "pipelines", list, `No pipelines. Spawn one: rgpt pipeline spawn --objective "…"`, "PIPELINE\tSTATUS\tATTEMPT\tROUNDS\tGAMMA\tSCORE\tAGE\tPLANS\tOBJECTIVE", func(w io.Writer, p store.Pipeline) {
		score := ""
		if p.Status.Terminal() { // a score before the end is only provisional
			score = fmt.Sprintf("%.2f", p.Metrics.PerformanceScore)
		}
		status, plans := string(p.Status), ""
		if p.WaitingFor != "" {
			status += ", waiting for " + terminal.Clean(p.WaitingFor)
		}
		if p.ForRun {
			plans = fmt.Sprintf("run %d", p.RunID)
		}
		fmt.Fprintf(w, "%d\t%s\t%d\t%d\t%s\t%s\t%s\t%s\t%.80s\n", p.ID, status, p.Attempt, p.Iteration, p.Metrics.GammaReason, score, age(p.CreatedAt), plans, terminal.Clean(p.Objective))
	})
}

func newPipelineStatus(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "status [PIPELINE]", Short: "Show the agents, blackboard, votes and metrics of a pipeline (default: the newest pipeline)", Args: perhapsPipeline,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.with(cmd.Context(), 0, func(h backend.Backend) error {
				id, err := chosenPipeline(cmd.Context(), h, args)
				if err != nil {
					return err
				}
				o, err := h.Orchestration(cmd.Context(), id, false)
				switch {
				case err != nil:
					return err
				case a.json:
					a.printJSON(o)
				default:
					a.printOrchestration(o)
				}
				return nil
			})
		},
	}
}

func (a *app) printOrchestration(o control.Orchestration) {
	p := o.Pipeline
	fmt.Fprintf(a.out, "Pipeline %d%s: %s\n", p.ID, recoveryOf(p), terminal.Clean(p.Objective))
	status := string(p.Status)
	if p.WaitingFor != "" {
		status += fmt.Sprintf(", waiting for %s: rgpt pipeline %s %d", p.WaitingFor, p.WaitingFor, p.ID)
	}
	fmt.Fprintf(a.out, "  status     %s\n", status)
	if p.ForRun {
		fmt.Fprintf(a.out, "  plans      run %d\n", p.RunID)
	}
	for _, line := range [][2]string{{"mode", string(p.Mode)}, {"aborted", string(p.AbortReason)}, {"handoff", p.HandoffRef}} {
		if line[1] != "" {
			fmt.Fprintf(a.out, "  %-9s  %s\n", line[0], terminal.Clean(line[1]))
		}
	}
	if p.RecoveredBy != 0 {
		fmt.Fprintf(a.out, "  recovered  by pipeline %d\n", p.RecoveredBy)
	}
	if f := p.Failure; f != nil {
		fmt.Fprintf(a.out, "  failure    %s (%s): %s\n", f.Class, f.Code, terminal.Clean(f.Message))
	}
	a.printConsensus(p)
	a.printDecision(o.Decision())
	a.printMetrics(p)
	a.printMembers(p.Members)
	for _, b := range o.Budgets {
		a.printBudget(b)
	}
	a.printBlackboard(o)
}

// printConsensus prints the whole consensus.
func (a *app) printConsensus(p store.Pipeline) {
	if p.Consensus == nil {
		return
	}
	a.printText("  consensus  "+terminal.Clean(p.Consensus.About)+":", p.Consensus.Value.Head)
}

// printDecision prints the reasons for a decision, the rejected alternatives, open questions and
// remarks.
func (a *app) printDecision(d *contract.Decision) {
	if d == nil {
		return
	}
	list := func(title string, all []contract.Remark) {
		for _, r := range all {
			if r.Text.Head != "" {
				a.printText(fmt.Sprintf("  %-9s  %s on %s:", title, r.By, terminal.Clean(r.About)), r.Text.Head)
			}
		}
	}
	list("reason", d.Reasons)
	for _, alt := range d.Rejected {
		a.printText(fmt.Sprintf("  rejected   %s by %s, %s:", terminal.Clean(alt.Key), alt.Author, alt.State), alt.Text.Head)
	}
	list("open", d.OpenQuestions)
	list("remark", d.Remarks)
}

// printText prints an agent's text: after its heading if it is a single line, otherwise below.
func (a *app) printText(head, text string) {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	if len(lines) == 1 {
		fmt.Fprintln(a.out, strings.TrimRight(head+" "+terminal.CleanLine(lines[0]), " "))
		return
	}
	fmt.Fprintln(a.out, strings.TrimRight(head, " "))
	for _, line := range lines {
		fmt.Fprintln(a.out, strings.TrimRight("    "+terminal.CleanLine(line), " "))
	}
}

// printMetrics prints the metrics of a pipeline and anything unusual in them.
func (a *app) printMetrics(p store.Pipeline) {
	m := p.Metrics
	fmt.Fprintf(a.out, "  rounds     %d of %d; %d messages (%d direct), %d writes, %d reads, %d votes, %d rejected\n",
		p.Iteration, p.Settings.Iterations, m.TotalMessages, m.DirectMessages, m.BlackboardWrites, m.BlackboardReads, m.Votes, m.Refused)
	fmt.Fprintf(a.out, "  conflicts  %d detected, %d resolved\n", m.ConflictsDetected, m.ConflictsResolved)
	if m.GammaSpawned {
		fmt.Fprintf(a.out, "  GAMMA      %s\n", m.GammaReason)
	}
	if p.Status.Terminal() {
		fmt.Fprintf(a.out, "  score      %.2f\n", m.PerformanceScore)
	}
	for _, line := range p.Analysis {
		fmt.Fprintf(a.out, "  note       %s\n", terminal.Clean(line))
	}
}

func (a *app) printMembers(members []contract.MemberView) {
	if len(members) == 0 {
		return
	}
	fmt.Fprintln(a.out)
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "AGENT\tROLE\tSTATUS\tPHASE\tPROGRESS\tTURNS\tERRORS\tTOKENS\tBLOCKED BY")
	for _, m := range members {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%.0f %%\t%s\t%d\t%d\t%s\n", m.Member, terminal.Clean(m.Role), m.Status, terminal.Clean(m.Phase), 100*m.Progress, m.TurnsTaken(), m.Errors, m.Usage.Tokens(), terminal.Clean(m.BlockedReason))
	}
	_ = w.Flush()
}

func (a *app) printBlackboard(o control.Orchestration) {
	section := contract.Section("")
	for _, e := range o.Blackboard {
		if e.Section != section {
			section = e.Section
			fmt.Fprintf(a.out, "\n%s\n", section)
		}
		state := ""
		if e.State != "" {
			state = ", " + string(e.State)
		}
		fmt.Fprintf(a.out, "  %s (%s, version %d%s): %s\n", terminal.Clean(e.Key), e.Author, e.Version, state, terminal.Clean(e.Value.Head))
	}
	if len(o.Votes) > 0 {
		fmt.Fprintln(a.out, "\nvotes")
	}
	for _, v := range o.Votes {
		text := ""
		if v.Text.Head != "" {
			text = ": " + terminal.Clean(v.Text.Head)
		}
		fmt.Fprintf(a.out, "  %s %s %s, version %d%s\n", v.Voter, verb(v.Accept), terminal.Clean(v.Key), v.Version, text)
	}
}

// verb returns the word for a vote.
func verb(accept bool) string {
	if accept {
		return "accepts"
	}
	return "rejects"
}

func newPipelineLogs(a *app) *cobra.Command {
	var follow bool
	var after int64
	cmd := &cobra.Command{
		Use: "logs [PIPELINE]", Short: "Show the messages, writes, votes, errors and status changes of a pipeline (default: the newest pipeline)", Args: perhapsPipeline,
		Example: `  rgpt pipeline logs 7
  rgpt pipeline logs 7 --follow --json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.with(cmd.Context(), 0, func(h backend.Backend) error {
				id, err := chosenPipeline(cmd.Context(), h, args)
				if err != nil {
					return err
				}
				return a.pipelineLogs(cmd.Context(), h, id, after, follow)
			})
		},
	}
	cmd.Flags().BoolVar(&follow, "follow", false, "follow until the pipeline ends")
	cmd.Flags().Int64Var(&after, "after", 0, "skip entries up to this number")
	return cmd
}

// pipelineLogs prints the log of a pipeline and, with follow, new entries until it ends.
func (a *app) pipelineLogs(ctx context.Context, h backend.Backend, id, after int64, follow bool) error {
	p, err := h.Pipeline(ctx, id)
	if err != nil {
		return err
	}
	if !follow || p.Status.Terminal() {
		return a.showLogs(ctx, h, id, &after, true)
	}
	// The stream begins with the past entries. Reading those separately could consume the one that
	// ends the pipeline, for which the stream would then wait in vain.
	return h.FollowPipeline(ctx, id, after, func(e contract.Event) error {
		a.printPipelineLog(control.LogOf(e), true)
		if overBy(e) {
			return feed.ErrStop
		}
		return nil
	})
}

// logPage is the number of log entries per request.
const logPage = 500

// showLogs prints the entries after a given number, which it advances, as single lines or with
// their full text.
func (a *app) showLogs(ctx context.Context, h backend.Backend, id int64, after *int64, whole bool) error {
	for {
		page, err := withRetries(ctx, func() ([]control.PipelineLog, error) { return h.PipelineLogs(ctx, id, *after, logPage) })
		if err != nil {
			return err
		}
		for _, l := range page {
			a.printPipelineLog(l, whole)
			*after = l.Seq
		}
		if len(page) < logPage {
			return nil
		}
	}
}

// printPipelineLog prints one entry, as a single line or with its full text.
func (a *app) printPipelineLog(l control.PipelineLog, whole bool) {
	if a.json {
		if raw, err := json.Marshal(l); err == nil {
			fmt.Fprintln(a.out, string(raw))
		}
		return
	}
	head := fmt.Sprintf("%s  %-24s %s", l.At.Local().Format("15:04:05.0"), l.Type, inWords(l))
	text := l.Text
	if !whole {
		text = terminal.Clean(text)
	}
	a.printText(head, text)
}

// inWords describes an entry without its text.
func inWords(l control.PipelineLog) string {
	switch l.Kind {
	case control.LogMessage:
		to := "everyone"
		if l.To != "" {
			to = string(l.To)
		}
		return fmt.Sprintf("%s → %s:", terminal.Clean(string(l.Agent)), terminal.Clean(to))
	case control.LogWrite:
		return terminal.Clean(fmt.Sprintf("%s %s/%s, version %d:", l.Agent, l.Section, l.Key, l.Version))
	case control.LogVote:
		colon := ""
		if l.Text != "" {
			colon = ":"
		}
		return terminal.Clean(fmt.Sprintf("%s %s %s, version %d%s", l.Agent, verb(l.Accept != nil && *l.Accept), l.Key, l.Version, colon))
	case control.LogError:
		return terminal.Clean(fmt.Sprintf("%s %s (%s):", l.Agent, l.ErrorType, l.ErrorCode))
	case control.LogStatus:
		return terminal.Clean(string(l.Status))
	default:
		return strings.TrimSpace(terminal.Clean(string(l.Agent)) + " " + eventInWords(l.Details))
	}
}

// eventInWords returns the most relevant fields of an event's payload as text.
func eventInWords(details json.RawMessage) string {
	var m map[string]any
	if json.Unmarshal(details, &m) != nil {
		return ""
	}
	var out []string
	for _, key := range []string{"role", "status", "reason", "kind", "key", "version", "by", "abort_reason", "handoff_ref", "recovered_by", "attempt", "error_message"} {
		switch v := m[key].(type) {
		case nil:
		case string:
			if v != "" {
				out = append(out, terminal.Clean(v))
			}
		case float64:
			out = append(out, fmt.Sprintf("%s %g", strings.ReplaceAll(key, "_", " "), v))
		}
	}
	if failure, ok := m["failure"].(map[string]any); ok {
		if why, ok := failure["error_message"].(string); ok && why != "" {
			out = append(out, terminal.Clean(why))
		}
	}
	return strings.Join(out, "  ")
}
