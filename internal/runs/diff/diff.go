package diff

import (
	"cmp"
	"slices"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/planning"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
)

// Diff lists the differences of the right side from the left side, regressions first. The names and
// meanings of its JSON fields are stable; lists are never null.
type Diff struct {
	Left         Ident        `json:"left"`
	Right        Ident        `json:"right"`
	Regressions  []Point      `json:"regressions"`
	Improvements []Point      `json:"improvements"`
	Notes        []string     `json:"notes"` // data that was not recorded or not compared
	Plan         PlanDiff     `json:"plan"`
	Code         CodeDiff     `json:"code"`
	Tests        TestsDiff    `json:"tests"`
	Findings     FindingsDiff `json:"findings"`
	Timing       []TimingDiff `json:"timing"` // by phase, in order
	Tokens       TokensDiff   `json:"tokens"`
	Cost         CostDiff     `json:"cost"`
	Heals        HealsDiff    `json:"heals"`
	Models       ModelsDiff   `json:"models"`
}

// Ident identifies a side.
type Ident struct {
	Run     int64             `json:"run"`
	Attempt int               `json:"attempt"`         // 0: the run as it is now
	Phase   contract.Phase    `json:"phase,omitempty"` // whose attempt it is
	Goal    string            `json:"goal"`
	Status  string            `json:"status"` // of the run, or of the attempt's execution
	Failure *contract.Failure `json:"failure,omitempty"`
	Base    string            `json:"base"` // commit
	Tree    string            `json:"tree"` // final git tree; empty: no code is recorded
}

// Name returns the side's name in the format that ParseRef accepts.
func (i Ident) Name() string { return Ref{Run: i.Run, Attempt: i.Attempt}.String() }

// TimingDiff compares the total duration of a phase's attempts.
type TimingDiff struct {
	Phase      contract.Phase `json:"phase"`
	LeftMS     int64          `json:"left_ms"`
	RightMS    int64          `json:"right_ms"`
	DeltaMS    int64          `json:"delta_ms"`
	LeftEnded  bool           `json:"left_ended"` // false: not started or still running; its time is not judged
	RightEnded bool           `json:"right_ended"`
}

// TokensDiff compares the tokens that models read and wrote.
type TokensDiff struct {
	Left  Tokens `json:"left"`
	Right Tokens `json:"right"`
	Delta int64  `json:"delta"` // of the totals
}

// Tokens counts the tokens that models read and wrote.
type Tokens struct {
	Prompt     int64 `json:"prompt"`
	Completion int64 `json:"completion"`
	Total      int64 `json:"total"`
	Calls      int   `json:"calls"`
}

// CostDiff compares the cost of model calls, in millionths of a US dollar.
type CostDiff struct {
	LeftMicroUSD   int64 `json:"left_micro_usd"`
	RightMicroUSD  int64 `json:"right_micro_usd"`
	DeltaMicroUSD  int64 `json:"delta_micro_usd"`
	LeftEstimated  bool  `json:"left_estimated,omitempty" doc:"some of the left cost is of models without a known price"`
	RightEstimated bool  `json:"right_estimated,omitempty" doc:"some of the right cost is of models without a known price"`
}

// Estimated reports whether the cost of a side, and so the difference, is of models without a known
// price.
func (d CostDiff) Estimated() bool { return d.LeftEstimated || d.RightEstimated }

// HealsDiff lists the heals of each side.
type HealsDiff struct {
	Left  []Heal `json:"left"`
	Right []Heal `json:"right"`
}

// Heal is the self-healing of one failure.
type Heal struct {
	Phase     string `json:"phase"`
	ErrorType string `json:"error_type"`
	Action    string `json:"action"`
}

// ModelsDiff lists which models each side used, and for what.
type ModelsDiff struct {
	Left  []Model `json:"left"`
	Right []Model `json:"right"`
	Same  bool    `json:"same"` // the same agents used the same models, regardless of usage
}

// Model is the usage of one model by one agent.
type Model struct {
	Agent     contract.Agent `json:"agent"`
	Provider  string         `json:"provider"`
	Model     string         `json:"model"`
	Calls     int            `json:"calls"`
	Tokens    int64          `json:"tokens"`
	MicroUSD  int64          `json:"micro_usd"`
	Estimated bool           `json:"estimated_price,omitempty" doc:"the price of the model is unknown"`
}

// Compare returns the differences of side b from side a. It is a pure function: the same sides
// always produce the same result.
func Compare(a, b Side) Diff {
	d := Diff{
		Left: a.ident(), Right: b.ident(), Notes: slices.Concat([]string{}, a.Notes, b.Notes),
		Plan: comparePlans(a.Plan, b.Plan), Tests: compareTests(a, b), Findings: compareFindings(a, b), Timing: compareTiming(a, b),
		Tokens: compareTokens(a.Usage, b.Usage), Heals: HealsDiff{Left: healsOf(a), Right: healsOf(b)},
		Cost: CostDiff{
			LeftMicroUSD: a.Usage.MicroUSD, RightMicroUSD: b.Usage.MicroUSD, DeltaMicroUSD: b.Usage.MicroUSD - a.Usage.MicroUSD,
			LeftEstimated: a.Usage.EstimatedPrice, RightEstimated: b.Usage.EstimatedPrice,
		},
	}
	var notes []string
	d.Code, notes = compareCode(a, b)
	d.Notes = append(d.Notes, notes...)
	d.Notes = append(d.Notes, testNotes(a, b)...)
	d.Models = ModelsDiff{Left: modelsOf(a), Right: modelsOf(b)}
	d.Models.Same = slices.EqualFunc(d.Models.Left, d.Models.Right, func(l, r Model) bool {
		return l.Agent == r.Agent && l.Provider == r.Provider && l.Model == r.Model
	})
	d.Regressions, d.Improvements = judge(a, b, d)
	return d
}

func (s Side) ident() Ident {
	i := Ident{
		Run: s.Ref.Run, Attempt: s.Ref.Attempt, Goal: s.Goal, Status: s.Status, Failure: s.Failure, Base: s.Base, Tree: s.Code.Tree,
	}
	if s.Ref.Attempt > 0 {
		i.Phase = cmp.Or(s.Ref.Phase, contract.PhaseTester)
	}
	return i
}

func compareTiming(a, b Side) []TimingDiff {
	out := make([]TimingDiff, 0, len(contract.Phases()))
	for _, p := range contract.Phases() {
		left, leftEnded := a.took(p)
		right, rightEnded := b.took(p)
		out = append(out, TimingDiff{
			Phase: p, LeftMS: left.Milliseconds(), RightMS: right.Milliseconds(), DeltaMS: right.Milliseconds() - left.Milliseconds(),
			LeftEnded: leftEnded, RightEnded: rightEnded,
		})
	}
	return out
}

func compareTokens(a, b contract.Usage) TokensDiff {
	tokens := func(u contract.Usage) Tokens {
		return Tokens{Prompt: u.PromptTokens, Completion: u.CompletionTokens, Total: u.Tokens(), Calls: u.Calls}
	}
	return TokensDiff{Left: tokens(a), Right: tokens(b), Delta: b.Tokens() - a.Tokens()}
}

func healsOf(s Side) []Heal {
	out := []Heal{}
	for _, h := range s.Heals {
		out = append(out, Heal{Phase: string(h.Phase), ErrorType: string(h.ErrorType), Action: string(h.HealAction)})
	}
	return out
}

func modelsOf(s Side) []Model {
	out := []Model{}
	for _, m := range s.Models {
		out = append(out, Model{Agent: m.Agent, Provider: m.Provider, Model: m.Model, Calls: m.Calls, Tokens: m.Tokens(), MicroUSD: m.MicroUSD, Estimated: m.EstimatedPrice})
	}
	slices.SortFunc(out, func(x, y Model) int {
		return cmp.Or(cmp.Compare(x.Agent, y.Agent), cmp.Compare(x.Provider, y.Provider), cmp.Compare(x.Model, y.Model))
	})
	return out
}

// PlanDiff compares plans step by step; steps are matched by ID.
type PlanDiff struct {
	LeftRecorded  bool          `json:"left_recorded"`
	RightRecorded bool          `json:"right_recorded"`
	Same          bool          `json:"same"`
	Changed       []FieldChange `json:"changed"` // of the plan itself
	StepsAdded    []StepName    `json:"steps_added"`
	StepsRemoved  []StepName    `json:"steps_removed"`
	StepsChanged  []StepChange  `json:"steps_changed"`
	StepsSame     []string      `json:"steps_same"` // ids
}

// StepName names a step of a plan.
type StepName struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// StepChange lists the differences of a step.
type StepChange struct {
	StepName               // as on the right
	Changed  []FieldChange `json:"changed"`
}

// FieldChange is one field with its two values: texts, numbers or lists of texts.
type FieldChange struct {
	Field string `json:"field"`
	Left  any    `json:"left"`
	Right any    `json:"right"`
}

func comparePlans(a, b *contract.Plan) PlanDiff {
	d := PlanDiff{
		LeftRecorded: a != nil, RightRecorded: b != nil,
		Changed: []FieldChange{}, StepsAdded: []StepName{}, StepsRemoved: []StepName{}, StepsChanged: []StepChange{}, StepsSame: []string{},
	}
	left, right := orEmpty(a), orEmpty(b)
	if a != nil && b != nil {
		d.Changed = fieldsOf(d.Changed, "summary", left.Summary, right.Summary)
		d.Changed = fieldsOf(d.Changed, "complexity_score", left.ComplexityScore, right.ComplexityScore)
		d.Changed = fieldsOf(d.Changed, "edits", shownEdits(left), shownEdits(right))
	}
	for _, s := range left.Steps {
		if _, there := right.Step(s.ID); !there {
			d.StepsRemoved = append(d.StepsRemoved, StepName{s.ID, s.Name})
		}
	}
	for _, s := range right.Steps {
		old, there := left.Step(s.ID)
		if !there {
			d.StepsAdded = append(d.StepsAdded, StepName{s.ID, s.Name})
			continue
		}
		if changed := compareSteps(old, s); len(changed) > 0 {
			d.StepsChanged = append(d.StepsChanged, StepChange{StepName{s.ID, s.Name}, changed})
		} else {
			d.StepsSame = append(d.StepsSame, s.ID)
		}
	}
	d.Same = d.LeftRecorded == d.RightRecorded && len(d.Changed)+len(d.StepsAdded)+len(d.StepsRemoved)+len(d.StepsChanged) == 0
	return d
}

func orEmpty(p *contract.Plan) contract.Plan {
	if p == nil {
		return contract.Plan{}
	}
	return *p
}

func compareSteps(a, b contract.Step) (changed []FieldChange) {
	changed = fieldsOf(changed, "name", a.Name, b.Name)
	changed = fieldsOf(changed, "description", a.Description, b.Description)
	changed = listsOf(changed, "dependencies", a.Dependencies, b.Dependencies)
	changed = fieldsOf(changed, "estimated_complexity", a.EstimatedComplexity, b.EstimatedComplexity)
	changed = fieldsOf(changed, "risk_level", a.RiskLevel, b.RiskLevel)
	changed = listsOf(changed, "verification_criteria", a.VerificationCriteria, b.VerificationCriteria)
	return listsOf(changed, "files", a.Files, b.Files)
}

// maxEdits is the number of bytes of a plan's edits in a comparison.
const maxEdits = 4 << 10

func shownEdits(p contract.Plan) string {
	return telemetry.Redact(planning.EditsText(p.Edits, maxEdits))
}

func fieldsOf[T comparable](to []FieldChange, field string, a, b T) []FieldChange {
	if a == b {
		return to
	}
	return append(to, FieldChange{field, a, b})
}

func listsOf(to []FieldChange, field string, a, b []string) []FieldChange {
	if slices.Equal(a, b) {
		return to
	}
	return append(to, FieldChange{field, slices.Concat([]string{}, a), slices.Concat([]string{}, b)})
}

// FindingsDiff compares the findings of verification.
type FindingsDiff struct {
	New       []Finding  `json:"new"`
	Fixed     []Finding  `json:"fixed"`
	Same      []Finding  `json:"same"`
	Unchecked []Finding  `json:"unchecked"` // findings of the left whose check did not run on the right: their state is unknown
	Left      Severities `json:"left"`
	Right     Severities `json:"right"`
}

// Severities counts findings.
type Severities struct {
	Major  int `json:"major"`
	Medium int `json:"medium"`
	Minor  int `json:"minor"`
}

// Finding is a finding with the check that found it.
type Finding struct {
	Check    string            `json:"check"`
	Severity contract.Severity `json:"severity"`
	Category contract.Category `json:"category"`
	Message  string            `json:"message"`
	Location string            `json:"location,omitempty"`
	Rule     string            `json:"rule,omitempty"`
}

// key returns the fields that identify a finding on both sides: without the line, which moves, and
// for a test without the message, which contains durations and addresses.
func (f Finding) key() Finding {
	f.Location = fileOf(f.Location)
	if f.Category == contract.CategoryTest && f.Rule != "" {
		f.Message, f.Location = "", ""
	}
	return f
}

func compareFindings(a, b Side) FindingsDiff {
	d := FindingsDiff{New: []Finding{}, Fixed: []Finding{}, Same: []Finding{}, Unchecked: []Finding{}}
	left, right := findingsOf(a, &d.Left), findingsOf(b, &d.Right)
	open := map[Finding]int{}
	for _, f := range left {
		open[f.key()]++
	}
	for _, f := range right {
		if open[f.key()] > 0 {
			open[f.key()]--
			d.Same = append(d.Same, f)
		} else {
			d.New = append(d.New, f)
		}
	}
	ran := checksOf(b)
	for _, f := range slices.Backward(left) { // the findings found first are matched
		if open[f.key()] == 0 {
			continue
		}
		open[f.key()]--
		if _, there := ran[f.Check]; there {
			d.Fixed = append(d.Fixed, f)
		} else {
			d.Unchecked = append(d.Unchecked, f)
		}
	}
	slices.Reverse(d.Fixed)
	slices.Reverse(d.Unchecked)
	return d
}

// findingsOf returns a side's findings, most serious first.
func findingsOf(s Side, count *Severities) []Finding {
	var out []Finding
	weight := map[contract.Severity]int{contract.SeverityMajor: 0, contract.SeverityMedium: 1, contract.SeverityMinor: 2}
	for _, f := range s.Findings {
		out = append(out, Finding{
			Check: checkOf(f.CheckID, f.Category), Severity: f.Severity, Category: f.Category,
			Message: f.Message, Location: f.Location, Rule: f.Rule,
		})
		switch f.Severity {
		case contract.SeverityMajor:
			count.Major++
		case contract.SeverityMedium:
			count.Medium++
		default:
			count.Minor++
		}
	}
	slices.SortStableFunc(out, func(x, y Finding) int {
		return cmp.Or(cmp.Compare(weight[x.Severity], weight[y.Severity]), cmp.Compare(x.Check, y.Check),
			cmp.Compare(x.Location, y.Location), cmp.Compare(x.Rule, y.Rule), cmp.Compare(x.Message, y.Message))
	})
	return out
}

// Limits below which a difference in time or cost is noise. A difference must exceed both: the
// share of the better side's value, and the absolute amount.
const (
	NoisePart      = 0.20
	SlowerLeast    = time.Second
	DearerMicroUSD = 10_000 // 0.01 US dollars
)

// exceeds reports whether b is more than a by more than both limits.
func exceeds(a, b, least int64) bool {
	return b-a > least && float64(b-a) > NoisePart*float64(a)
}

func durationMS(checks []store.Check) (ms int64) {
	for _, c := range checks {
		ms += c.Result.DurationMS
	}
	return ms
}
