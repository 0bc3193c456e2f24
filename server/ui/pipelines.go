package ui

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store"
)

// PipelineHref returns the address of a pipeline's page.
func PipelineHref(id int64) string { return fmt.Sprintf("/pipelines/%d", id) }

// PipelineState returns the display state of a pipeline, and the word for its status.
func PipelineState(p store.Pipeline) (State, string) {
	word := statusWord(p.Status)
	switch p.Status {
	case contract.PipelineSpawned:
		return Queued, word
	case contract.PipelineReport:
		if p.WaitingFor != "" {
			return Waiting, word
		}
		return Running, word
	case contract.PipelineRunning, contract.PipelineOrchestrating:
		return Running, word
	case contract.PipelineCompleted:
		return Done, word
	case contract.PipelineStopped:
		return Stopped, word
	case contract.PipelineFailed, contract.PipelineTimeout, contract.PipelineOrchestrationFailed:
	}
	return Failed, word
}

// statusWord returns a pipeline's status for users, such as Orchestration failed.
func statusWord(s contract.PipelineStatus) string { return capital(strings.ToLower(Words(s))) }

// memberState returns the display state of a member, and the word for it.
func memberState(s contract.MemberStatus) (State, string) {
	word := capital(Words(s))
	switch s {
	case contract.MemberThinking:
		return Running, word
	case contract.MemberDone:
		return Done, word
	case contract.MemberFailed:
		return Failed, word
	case contract.MemberTimedOut: // during the opening: it may return
		return Paused, word
	case contract.MemberRevoked:
		return Stopped, word
	case contract.MemberIdle:
	}
	return Queued, word
}

// PipelineChoice is the filter of a list of pipelines, as in the address.
type PipelineChoice struct {
	Status, Kind, Abort, Text, Time string
}

// Any reports whether any filter is set.
func (c PipelineChoice) Any() bool { return c != PipelineChoice{} }

// The kinds of pipelines to choose from.
const (
	PipelinesAlone = "alone"
	PipelinesOfRun = "run"
)

// Known reports whether every filter has a valid value.
func (c PipelineChoice) Known() bool {
	_, ok := c.Since(time.Now())
	return ok && (c.Status == "" || slices.Contains(contract.PipelineStatuses(), contract.PipelineStatus(c.Status))) &&
		slices.Contains([]string{"", PipelinesAlone, PipelinesOfRun}, c.Kind) &&
		(c.Abort == "" || slices.Contains(abortReasons(), contract.AbortReason(c.Abort)))
}

// Since returns the start of the time filter, or the zero time without a filter; false if the
// filter is invalid.
func (c PipelineChoice) Since(now time.Time) (time.Time, bool) {
	if c.Time == "" {
		return time.Time{}, true
	}
	since := Choice{Time: c.Time}.Since(now)
	return since, !since.IsZero()
}

func abortReasons() []contract.AbortReason {
	return []contract.AbortReason{contract.AbortStuck, contract.AbortIterationLimit, contract.AbortTimeout}
}

// BlackboardEntry is one place on the blackboard: its newest version, the earlier ones, and the
// remarks on it.
type BlackboardEntry struct {
	contract.Entry
	Earlier []contract.Entry // the newest first
	Said    []contract.Entry // evaluations and objections, in the order of writing
}

// PlacesOf arranges all versions of all entries by section, in the order in which places were first
// written. Remarks are listed with their subject.
func PlacesOf(entries []contract.Entry) map[contract.Section][]BlackboardEntry {
	type at struct {
		section contract.Section
		key     string
	}
	byKey := map[at][]contract.Entry{}
	var order []at
	for _, e := range entries {
		k := at{e.Section, e.Key}
		if byKey[k] == nil {
			order = append(order, k)
		}
		byKey[k] = append(byKey[k], e)
	}
	out := map[contract.Section][]BlackboardEntry{}
	home := map[string]*BlackboardEntry{} // places that can have remarks
	var about []contract.Entry
	for _, k := range order {
		versions := byKey[k]
		slices.SortFunc(versions, func(a, b contract.Entry) int { return b.Version - a.Version })
		if spoken(versions[0]) {
			about = append(about, versions[0])
			continue
		}
		out[k.section] = append(out[k.section], BlackboardEntry{Entry: versions[0], Earlier: versions[1:]})
	}
	for _, places := range out {
		for i, p := range places {
			if p.Section == contract.SectionSolutions || p.Section == contract.SectionSynthesis {
				home[p.Key] = &places[i]
			}
		}
	}
	var strays []contract.Entry
	for _, e := range about {
		if p := home[contract.SubjectOf(e.About)]; p != nil {
			p.Said = append(p.Said, e)
		} else {
			strays = append(strays, e)
		}
	}
	for _, e := range strays {
		out[e.Section] = append(out[e.Section], BlackboardEntry{Entry: e})
	}
	return out
}

// spoken reports whether an entry is a remark on another entry.
func spoken(e contract.Entry) bool {
	return e.About != "" && (e.Kind == contract.MoveEvaluate || e.Kind == contract.MoveObject || e.Kind == contract.MoveResolve)
}

// sectionWord returns a section's name for users and its purpose.
func sectionWord(s contract.Section) (word, what string) {
	switch s {
	case contract.SectionProblem:
		return "Problem", "The objective and the agents' analysis of it."
	case contract.SectionSolutions:
		return "Solutions", "Proposals and comments on them."
	case contract.SectionSynthesis:
		return "Synthesis", "Combined proposals to vote on."
	case contract.SectionConsensus:
		return "Consensus", "The agreement between ALPHA and BETA, or GAMMA's decision."
	}
	return capital(Words(s)), ""
}

// entryKind returns the name of an entry's kind.
func entryKind(e contract.Entry) string {
	switch e.Kind {
	case contract.MoveAnalyse:
		return "analysis"
	case contract.MovePropose:
		return "proposal"
	case contract.MoveEvaluate:
		return "evaluation"
	case contract.MoveObject:
		return "objection"
	case contract.MoveSynthesise:
		return "synthesis"
	case contract.MoveVerdict:
		return "verdict"
	case contract.MoveResolve:
		return "answer"
	case contract.MoveDecompose:
		return "decomposition"
	case contract.MoveVote, contract.MoveMessage, contract.MoveDone:
	}
	return Words(e.Kind)
}

// entryTag returns the style for an entry's outcome.
func entryTag(e contract.Entry) string {
	switch e.State {
	case contract.EntryAccepted, contract.EntryAnswered:
		return "good"
	case contract.EntryLive:
		if e.Kind == contract.MoveObject {
			return "warn" // still open
		}
	case contract.EntryWithdrawn, contract.EntryMerged, contract.EntrySettled:
	}
	return ""
}

func entryStateWord(e contract.Entry) string {
	if e.Kind == contract.MoveObject && e.State == contract.EntryLive {
		return "open"
	}
	return string(e.State)
}

// entryID returns the anchor of an entry.
func entryID(e contract.Entry) string { return "entry-" + string(e.Section) + "-" + e.Key }

// entryHref returns the link to the anchor of an entry.
func entryHref(e contract.Entry) string { return "#" + query(entryID(e)) }

// Ballot is one version of a synthesis with the vote of each voter.
type Ballot struct {
	Key     string
	Version int
	State   contract.EntryState
	Votes   map[contract.Member]contract.Vote
}

// BallotsOf groups votes by version, the newest version of each synthesis first. It includes
// versions without votes.
func BallotsOf(p PipelinePage) []Ballot {
	entries, votes := p.Entries, p.Votes
	type about struct {
		key     string
		version int
	}
	var order []about
	all := map[about]*Ballot{}
	add := func(key string, version int) *Ballot {
		k := about{key, version}
		if all[k] == nil {
			all[k] = &Ballot{Key: key, Version: version, Votes: map[contract.Member]contract.Vote{}}
			order = append(order, k)
		}
		return all[k]
	}
	for _, e := range entries {
		if e.Section == contract.SectionSynthesis && !spoken(e) {
			add(e.Key, e.Version).State = e.State
		}
	}
	for _, v := range votes {
		add(v.Key, v.Version).Votes[v.Voter] = v
	}
	// The state belongs to the newest version of the entry, but the version agreed on may be an
	// earlier one.
	if c := p.Pipeline.Consensus; c != nil && c.AboutVersion > 0 {
		for _, k := range order {
			if b := all[k]; b.Key == c.About && b.State == contract.EntryAccepted {
				b.State = contract.EntrySettled
			}
		}
		add(c.About, c.AboutVersion).State = contract.EntryAccepted
	}
	keys := map[string]int{} // in the order of writing
	for _, k := range order {
		if _, known := keys[k.key]; !known {
			keys[k.key] = len(keys)
		}
	}
	slices.SortStableFunc(order, func(a, b about) int {
		return cmp.Or(keys[b.key]-keys[a.key], b.version-a.version)
	})
	out := make([]Ballot, len(order))
	for i, k := range order {
		out[i] = *all[k]
	}
	return out
}

// voters returns the columns of a table of votes; GAMMA is included only if it voted.
func voters(votes []contract.Vote) []contract.Member {
	out := []contract.Member{contract.Alpha, contract.Beta}
	if slices.ContainsFunc(votes, func(v contract.Vote) bool { return v.Voter == contract.Gamma }) {
		out = append(out, contract.Gamma)
	}
	return out
}

// ScorePart is a part of a performance score.
type ScorePart struct {
	Name   string
	Points float64
	Most   float64 // the most it can add; negative: the most it can subtract
	Why    string
}

// The weights of contract.DeliberationMetrics.Score.
const (
	scoreConsensus, scoreRounds, scoreConflicts = 0.5, 0.2, 0.2
	scoreNoGamma, scoreGammaCame                = 0.1, 0.05
	scoreRefused, scoreMostRefused              = 0.05, 0.2
)

// ScoreParts explains the performance score of a deliberation: its parts add up
// to contract.DeliberationMetrics.Score.
func ScoreParts(m contract.DeliberationMetrics, iterations int) []ScorePart {
	consensus := ScorePart{Name: "Consensus", Most: scoreConsensus, Why: "not reached"}
	if m.End == nil {
		consensus.Why = "not yet"
	}
	if m.Consensus {
		consensus.Points, consensus.Why = scoreConsensus, "reached"
	}
	rounds := ScorePart{Name: "Rounds left", Most: scoreRounds, Why: fmt.Sprintf("%d of %d used", m.Iterations, iterations)}
	if iterations > 0 {
		rounds.Points = scoreRounds * (1 - min(1, float64(m.Iterations)/float64(iterations)))
	}
	conflicts := ScorePart{Name: "Conflicts resolved", Points: scoreConflicts, Most: scoreConflicts, Why: "no conflicts"}
	if m.ConflictsDetected > 0 {
		conflicts.Points = scoreConflicts * min(1, float64(m.ConflictsResolved)/float64(m.ConflictsDetected))
		conflicts.Why = fmt.Sprintf("%d of %d", m.ConflictsResolved, m.ConflictsDetected)
	}
	gamma := ScorePart{Name: "Without GAMMA", Points: scoreNoGamma, Most: scoreNoGamma, Why: "not needed"}
	if m.GammaSpawned {
		gamma.Points, gamma.Why = scoreGammaCame, "joined: "+string(m.GammaReason)
		if m.GammaReason == contract.GammaStuck {
			gamma.Points = 0
		}
	}
	refused := ScorePart{Name: "Rejected moves", Most: -scoreMostRefused, Why: "none"}
	if m.Refused > 0 {
		refused.Points = -min(scoreMostRefused, scoreRefused*float64(m.Refused))
		refused.Why = plural(m.Refused, "rejected move", "rejected moves")
	}
	return []ScorePart{consensus, rounds, conflicts, gamma, refused}
}

// score formats a score for users.
func score(s float64) string { return fmt.Sprintf("%.2f", s) }

// points formats a part of a score.
func points(p float64) string {
	if p < 0 {
		return fmt.Sprintf("−%.2f", -p)
	}
	return fmt.Sprintf("%.2f", p)
}

// gammaWhy explains which of the deliberation's rules made GAMMA join.
func gammaWhy(r contract.GammaReason, s contract.DeliberationSettings) string {
	switch r {
	case contract.GammaStuck:
		return "an agent had made no progress for " + Lasted(s.GammaStuckAfter)
	case contract.GammaConflict:
		return fmt.Sprintf("%d or more proposals were unresolved at the same time", s.GammaConflictAt)
	case contract.GammaComplexity:
		return fmt.Sprintf("the complexity exceeded %.2f", s.GammaComplexityOver)
	case contract.GammaSuccess:
		return "ALPHA and BETA finished, and their agreement needed a review"
	case contract.GammaRecovery:
		return "at the start, because an earlier attempt had failed"
	case contract.GammaForced:
		return "requested when the pipeline was spawned"
	}
	return ""
}

// gammaWhen describes when GAMMA joins.
func gammaWhen(s contract.DeliberationSettings) string {
	var when []string
	if s.GammaStuckAfter > 0 {
		when = append(when, "when an agent makes no progress for "+Lasted(s.GammaStuckAfter))
	}
	if s.GammaConflictAt > 0 {
		when = append(when, fmt.Sprintf("when %d proposals are unresolved", s.GammaConflictAt))
	}
	if s.GammaComplexityOver > 0 {
		when = append(when, fmt.Sprintf("when the complexity exceeds %.2f", s.GammaComplexityOver))
	}
	return strings.Join(append(when, "when ALPHA and BETA are both done, to validate their agreement"), ", or ")
}

// abortWords explains why a deliberation was aborted.
func abortWords(p store.Pipeline) string {
	switch p.AbortReason {
	case contract.AbortStuck:
		return "Aborted: no agent made progress for " + Lasted(p.Settings.AbortAfter) + "."
	case contract.AbortIterationLimit:
		return "Aborted: no consensus after " + plural(p.Settings.Iterations, "round", "rounds") + " of exchange."
	case contract.AbortTimeout:
		return "Aborted: the exchange exceeded its time limit of " + Lasted(p.Settings.ExchangeTime(p.Task)) + "."
	}
	switch p.Status {
	case contract.PipelineFailed:
		return "No agents left."
	case contract.PipelineOrchestrationFailed:
		return "All agents finished without reaching a consensus."
	case contract.PipelineStopped:
		return "Stopped. The results so far are kept."
	case contract.PipelineTimeout:
		return "Timed out."
	case contract.PipelineSpawned, contract.PipelineRunning, contract.PipelineReport, contract.PipelineOrchestrating, contract.PipelineCompleted:
	}
	return ""
}

// openingWords describes the members' progress in the opening turns.
func openingWords(p store.Pipeline) string {
	var ready, late, gone []string
	for _, who := range voters(nil) {
		m := member(p, who)
		switch {
		case m == nil:
		case m.Status == contract.MemberTimedOut:
			late = append(late, string(who))
		case m.Status == contract.MemberFailed || m.Status == contract.MemberRevoked:
			gone = append(gone, string(who))
		default:
			ready = append(ready, string(who))
		}
	}
	var words []string
	switch len(ready) {
	case 1:
		words = append(words, ready[0]+" has finished its opening turn.")
	case 2:
		words = append(words, "ALPHA and BETA have each finished their opening turns.")
	}
	if len(late) > 0 {
		words = append(words, strings.Join(late, " and ")+" took too long; late results still count.")
	}
	if len(gone) > 0 {
		words = append(words, strings.Join(gone, " and ")+" failed and left the pipeline.")
	}
	return strings.Join(words, " ")
}

// readsAndWrites counts reads and writes of a blackboard.
func readsAndWrites(m contract.DeliberationMetrics) string {
	return plural(m.BlackboardWrites, "write", "writes") + ", " + plural(m.BlackboardReads, "read", "reads")
}

// agreed describes the agreement, or the current votes; empty if the pipeline ended without an
// agreement.
func agreed(p store.Pipeline, ballots []Ballot) string {
	if c := p.Consensus; c != nil && c.Achieved != nil && *c.Achieved {
		what := strings.Join(c.From, ", ")
		if c.AboutVersion > 0 {
			what = fmt.Sprintf("%s v%d", c.About, c.AboutVersion)
		}
		by := "by votes"
		if c.Author == contract.Gamma {
			by = "by GAMMA's verdict"
		}
		return strings.TrimSpace(what + " " + by)
	}
	switch {
	case p.Status.Terminal():
		return ""
	case len(ballots) == 0:
		return "nothing to vote on yet"
	}
	b := ballots[0]
	parts := make([]string, 0, len(contract.Members()))
	for _, m := range voters(nil) {
		vote, voted := b.Votes[m]
		switch {
		case !voted:
			parts = append(parts, string(m)+" has not voted")
		case vote.Accept:
			parts = append(parts, string(m)+" accepts")
		default:
			parts = append(parts, string(m)+" rejects")
		}
	}
	return fmt.Sprintf("%s v%d: %s", b.Key, b.Version, strings.Join(parts, ", "))
}

// member returns the state of a member; nil if it does not exist.
func member(p store.Pipeline, m contract.Member) *contract.MemberView {
	for i := range p.Members {
		if p.Members[i].Member == m {
			return &p.Members[i]
		}
	}
	return nil
}

// alive reports whether a member can still be revoked.
func alive(p store.Pipeline, m contract.MemberView) bool {
	return !p.Status.Terminal() && m.Status != contract.MemberFailed && m.Status != contract.MemberRevoked
}

// totalUsage returns the total usage of a pipeline's members.
func totalUsage(p store.Pipeline) (u contract.Usage) {
	for _, m := range p.Members {
		u = u.Add(m.Usage)
	}
	return u
}

// PipelineActions returns the commands that are currently possible.
func PipelineActions(p store.Pipeline) []Command {
	if p.Status.Terminal() {
		return nil
	}
	return []Command{{
		Name: "stop", Label: "Stop", Icon: "circle-stop", Href: fmt.Sprintf("/api/pipeline/%d/stop", p.ID), Class: "danger", Reason: true,
		Ask: fmt.Sprintf("Stop pipeline %d? Its agents stop within 10 seconds. The results so far are kept as a partial report; the pipeline cannot be resumed.", p.ID),
	}}
}

func continueCommand(p store.Pipeline) Command {
	return Command{
		Name: "continue", Label: "Continue", Icon: "play", Href: "/api/pipeline/continue", Class: "primary", Key: "a",
		Body: fmt.Sprintf(`{"pipeline_id": %d}`, p.ID),
	}
}

func revokeCommand(p store.Pipeline, m contract.MemberView) Command {
	return Command{
		Name: "revoke", Label: "Revoke", Icon: "ban", Href: "/api/pipeline/revoke", Class: "danger small", Reason: true,
		Body: fmt.Sprintf(`{"pipeline_id": %d, "agent": %q}`, p.ID, m.Member),
		Ask:  fmt.Sprintf("Revoke %s in pipeline %d? The agent's pending model call will be cancelled, and the agent cannot rejoin. The other agents continue if they can.", m.Member, p.ID),
	}
}

// firstAndRest splits a text into the lines to show and the rest to fold.
func firstAndRest(text string, lines int) (first, rest string) {
	first = FirstLines(text, lines, len(text))
	return first, strings.Trim(text[len(first):], "\n")
}
