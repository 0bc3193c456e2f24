package ui

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/views"
)

// Limits of a timeline.
const (
	MostBars    = 1000 // per kind of activity; shorter ones are omitted until the user zooms in
	lanesShown  = 40   // more steps are folded into one lane
	packedRows  = 4    // of overlapping bars in a lane
	foldedRows  = 6
	narrowest   = 0.0018 // of the width: shorter bars are drawn this wide
	gapWidth    = 0.03   // of the width, of a pause that is not drawn to scale
	maxGapShare = 0.3    // of the width, of all such pauses
	minGap      = time.Minute
	gapShare    = 0.25 // of the active time: shorter pauses are drawn to scale
	edge        = 5 * time.Second
	tickEvery   = 0.09 // of the width, at least, between two labels of the axis
)

// TimelineQuery is the query in a timeline's address.
type TimelineQuery struct {
	Run      int64
	From, To time.Duration // since the run began; both 0 mean the whole run
	Hidden   []views.SpanKind
	Gaps     bool   // pauses are drawn to scale
	Lanes    bool   // no lane is folded
	Table    bool   // as a table
	Span     string // the selected one
}

// Href returns the address of the requested timeline.
func (q TimelineQuery) Href() string {
	v := url.Values{}
	if q.To > q.From {
		v.Set("from", strconv.FormatInt(q.From.Milliseconds(), 10))
		v.Set("to", strconv.FormatInt(q.To.Milliseconds(), 10))
	}
	if len(q.Hidden) > 0 {
		names := make([]string, len(q.Hidden))
		for i, k := range q.Hidden {
			names[i] = string(k)
		}
		v.Set("hide", strings.Join(names, ","))
	}
	for name, on := range map[string]bool{"gaps": q.Gaps, "lanes": q.Lanes} {
		if on {
			v.Set(name, "all")
		}
	}
	if q.Table {
		v.Set("as", "table")
	}
	if q.Span != "" {
		v.Set("span", q.Span)
	}
	href := RunHref(q.Run, "timeline")
	if len(v) > 0 {
		href += "?" + v.Encode()
	}
	return href
}

func (q TimelineQuery) with(change func(*TimelineQuery)) string {
	q.Hidden = slices.Clone(q.Hidden)
	change(&q)
	return q.Href()
}

func (q TimelineQuery) hides(k views.SpanKind) bool { return slices.Contains(q.Hidden, k) }

// toggled returns the address that hides a kind, or shows it if it is hidden.
func (q TimelineQuery) toggled(k views.SpanKind) string {
	return q.with(func(q *TimelineQuery) {
		if at := slices.Index(q.Hidden, k); at >= 0 {
			q.Hidden = slices.Delete(q.Hidden, at, at+1)
		} else {
			q.Hidden = append(q.Hidden, k)
		}
	})
}

// SpanHref returns the address of a span on the timeline of its run.
func SpanHref(run int64, key string) string { return TimelineQuery{Run: run, Span: key}.Href() }

// ── Time as width ──────────────────────────────────────────────────────────

// Scale maps a time range to positions from 0 to 1. Pauses may be shortened.
type Scale struct{ parts []stretch }

type stretch struct {
	from, to time.Time
	x0, x1   float64
	gap      bool
}

// NewScale returns the scale of a time range. Idle pauses that are long compared with the active
// time are shortened, unless atLength is set.
func NewScale(from, to time.Time, spans []views.Span, atLength bool) Scale {
	if !to.After(from) {
		to = from.Add(time.Millisecond)
	}
	if atLength {
		return Scale{[]stretch{{from, to, 0, 1, false}}}
	}
	parts := pauses(from, to, spans)
	var busy time.Duration
	gaps := 0
	for _, p := range parts {
		if p.gap {
			gaps++
		} else {
			busy += p.to.Sub(p.from)
		}
	}
	each := gapWidth
	if gaps > 0 {
		each = min(gapWidth, maxGapShare/float64(gaps))
	}
	if busy <= 0 { // nothing but pauses
		return Scale{[]stretch{{from, to, 0, 1, false}}}
	}
	left, x := 1-each*float64(gaps), 0.0
	for i := range parts {
		p := &parts[i]
		w := each
		if !p.gap {
			w = left * float64(p.to.Sub(p.from)) / float64(busy)
		}
		p.x0, p.x1 = x, x+w
		x += w
	}
	return Scale{parts}
}

// pauses divides a time range into active parts and long pauses.
func pauses(from, to time.Time, spans []views.Span) []stretch {
	var busy [][2]time.Time
	add := func(a, b time.Time) {
		if a.Before(from) {
			a = from
		}
		if b.After(to) {
			b = to
		}
		if !b.Before(a) {
			busy = append(busy, [2]time.Time{a, b})
		}
	}
	add(from, from)
	add(to, to)
	for _, s := range spans {
		end := s.End(to)
		switch s.Kind {
		case views.SpanModel, views.SpanTool, views.SpanTest:
			add(s.From, end)
		case views.SpanWait:
			add(s.From, s.From)
		default: // an enclosing span proves activity only at its start and end
			add(s.From, s.From.Add(min(edge, end.Sub(s.From))))
			add(end.Add(-min(edge, end.Sub(s.From))), end)
		}
	}
	slices.SortFunc(busy, func(a, b [2]time.Time) int { return a[0].Compare(b[0]) })
	var worked time.Duration
	merged := busy[:1]
	for _, b := range busy[1:] {
		if last := &merged[len(merged)-1]; !b[0].After(last[1]) {
			if b[1].After(last[1]) {
				last[1] = b[1]
			}
		} else {
			merged = append(merged, b)
		}
	}
	for _, b := range merged {
		worked += b[1].Sub(b[0])
	}
	long := max(minGap, time.Duration(float64(worked)*gapShare))
	var parts []stretch
	at := from
	for i := 1; i < len(merged); i++ {
		if a, b := merged[i-1][1], merged[i][0]; b.Sub(a) > long {
			if a.After(at) {
				parts = append(parts, stretch{from: at, to: a})
			}
			parts = append(parts, stretch{from: a, to: b, gap: true})
			at = b
		}
	}
	if to.After(at) || len(parts) == 0 {
		parts = append(parts, stretch{from: at, to: to})
	}
	return parts
}

// X returns the position of a moment, from 0 to 1.
func (s Scale) X(t time.Time) float64 {
	for _, p := range s.parts {
		if t.Before(p.from) {
			return p.x0
		}
		if !t.After(p.to) {
			return p.x0 + (p.x1-p.x0)*float64(t.Sub(p.from))/float64(p.to.Sub(p.from))
		}
	}
	return 1
}

// At returns the moment at a position from 0 to 1.
func (s Scale) At(x float64) time.Time {
	for _, p := range s.parts {
		if x <= p.x1 && p.x1 > p.x0 {
			return p.from.Add(time.Duration(float64(p.to.Sub(p.from)) * max(0, x-p.x0) / (p.x1 - p.x0)))
		}
	}
	return s.parts[len(s.parts)-1].to
}

// gaps returns the shortened pauses.
func (s Scale) gaps() []stretch {
	return slices.DeleteFunc(slices.Clone(s.parts), func(p stretch) bool { return !p.gap })
}

// Tick is a label of the axis.
type Tick struct {
	X    float64
	Word string
}

// ticks returns labels at round times since the run began, far enough apart to be readable.
func (s Scale) ticks(start time.Time) []Tick {
	var shown float64 // time per full width
	for _, p := range s.parts {
		if !p.gap && p.x1 > p.x0 {
			shown = max(shown, float64(p.to.Sub(p.from))/(p.x1-p.x0))
		}
	}
	step := roundStep(time.Duration(shown * tickEvery))
	var out []Tick
	for _, p := range s.parts {
		if p.gap {
			continue
		}
		first := p.from.Sub(start).Truncate(step)
		for at := first; ; at += step {
			t := start.Add(at)
			if t.After(p.to) {
				break
			}
			if t.Before(p.from) {
				continue
			}
			x := s.X(t)
			crowded := slices.ContainsFunc(s.gaps(), func(g stretch) bool { return math.Abs((g.x0+g.x1)/2-x) < tickEvery/2 })
			if len(out) > 0 && x-out[len(out)-1].X < tickEvery*0.9 || x > 0.97 || crowded {
				continue
			}
			out = append(out, Tick{x, offset(at)})
		}
	}
	return out
}

// offset formats a round time since the run began.
func offset(d time.Duration) string {
	if d < time.Second && d > 0 {
		return fmt.Sprintf("%dms", d.Milliseconds())
	}
	if d%time.Second != 0 && d < 10*time.Second {
		return fmt.Sprintf("%.1fs", d.Seconds())
	}
	if d < time.Minute {
		return fmt.Sprintf("%ds", d/time.Second)
	}
	return Lasted(d)
}

func roundStep(least time.Duration) time.Duration {
	for _, d := range []time.Duration{
		time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond,
		time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 15 * time.Second, 30 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute,
		10 * time.Minute, 15 * time.Minute, 30 * time.Minute, time.Hour, 2 * time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour,
	} {
		if d >= least {
			return d
		}
	}
	const day = 24 * time.Hour
	return least.Truncate(day) + day
}

// ── Lanes ──────────────────────────────────────────────────────────────────

// Lane is a row of a timeline: the activities of a phase or step.
type Lane struct {
	ID     string
	Name   string
	Title  string // title of the step
	More   string // below the name
	Deep   bool   // a step of the phase above
	Href   string
	Bars   []Bar
	Height int
}

// Bar is a span with its position in the drawing.
type Bar struct {
	views.Span
	X, W float64
	Y, H int
	Word string // on the bar, if it fits
}

// Timeline is the drawing of a run's activities over time.
type Timeline struct {
	Query      TimelineQuery
	Start, End time.Time // of the whole run
	From, To   time.Time // of what is shown
	Now        time.Time
	Live       bool // the run is active
	Spans      []views.Span
	Replays    []views.Replay
	Omitted    int               // short spans that are not shown
	Detail     *SpanDetail       // of the selected span; nil if none is
	Names      map[string]string // of the plan's steps, by id

	Scale  Scale
	Lanes  []Lane
	Folded int // steps that share a lane

	spans string // address of a span, without its key
}

// Extent returns the time from a run's first activity to its last.
func Extent(run store.Run, spans []views.Span, now time.Time) (from, to time.Time) {
	from, to = run.CreatedAt, now
	if run.FinishedAt != nil && run.Status.Terminal() && run.StayingUntil == nil {
		to = *run.FinishedAt
	}
	for _, s := range spans {
		if s.From.Before(from) {
			from = s.From
		}
		if end := s.End(to); end.After(to) {
			to = end
		}
	}
	if !to.After(from) {
		to = from.Add(time.Millisecond)
	}
	return from, to
}

// Draw places the spans of a timeline.
func (t *Timeline) Draw() {
	t.Scale = NewScale(t.From, t.To, t.Spans, t.Query.Gaps)
	t.spans = t.Query.with(func(q *TimelineQuery) { q.Span = "" })
	if strings.Contains(t.spans, "?") {
		t.spans += "&span="
	} else {
		t.spans += "?span="
	}
	if t.Query.Table {
		t.Spans = slices.DeleteFunc(t.Spans, func(s views.Span) bool { return t.outside(s) })
		slices.SortStableFunc(t.Spans, func(a, b views.Span) int { return a.From.Compare(b.From) })
		return
	}
	owners, lanes, waits, heals := t.grouped()
	if len(waits) > 0 {
		t.Lanes = append(t.Lanes, t.lane("waits", "Waiting", waits, packedRows))
	}
	if len(heals) > 0 {
		t.Lanes = append(t.Lanes, t.lane("heals", "Heals", heals, packedRows))
	}
	var folded []views.Span
	room := lanesShown
	for _, o := range owners {
		if o.step != "" {
			room--
		}
		own := lanes[o]
		switch {
		case o.step != "" && room < 0 && !t.Query.Lanes:
			t.Folded++
			folded = append(folded, slices.DeleteFunc(own, func(s views.Span) bool { return s.Kind != views.SpanStep })...)
		case slices.ContainsFunc(own, func(s views.Span) bool { return !t.outside(s) }):
			t.Lanes = append(t.Lanes, t.work(o.phase, o.step, own))
		}
	}
	if t.Folded > 0 {
		l := t.lane("folded", plural(t.Folded, "more step", "more steps"), folded, foldedRows)
		l.Deep, l.Href = true, t.Query.with(func(q *TimelineQuery) { q.Lanes = true })
		t.Lanes = append(t.Lanes, l)
	}
}

// laneOwner is a phase, or a step of one.
type laneOwner struct {
	phase contract.Phase
	step  string
}

// grouped groups the spans by owner: phases in order, each before its steps. It omits spans outside
// the time shown, except executions.
func (t *Timeline) grouped() (owners []laneOwner, lanes map[laneOwner][]views.Span, waits, heals []views.Span) {
	of, lanes := map[int64]laneOwner{}, map[laneOwner][]views.Span{}
	for _, s := range t.Spans {
		if !encloses(s) {
			continue
		}
		o := laneOwner{s.Phase, s.Step}
		of[s.ExecutionID] = o
		if _, known := lanes[o]; !known {
			owners = append(owners, o)
		}
		lanes[o] = append(lanes[o], s)
	}
	for _, s := range t.Spans {
		if encloses(s) || t.outside(s) {
			continue
		}
		o, known := of[s.ExecutionID]
		switch {
		case s.Kind == views.SpanWait:
			waits = append(waits, s)
		case s.Kind == views.SpanHeal:
			heals = append(heals, s)
		case known:
			lanes[o] = append(lanes[o], s)
		}
	}
	phases := contract.Phases()
	slices.SortStableFunc(owners, func(a, b laneOwner) int {
		return cmp.Or(cmp.Compare(slices.Index(phases, a.phase), slices.Index(phases, b.phase)), btoi(a.step != "")-btoi(b.step != ""))
	})
	return owners, lanes, waits, heals
}

// encloses reports whether a span is an attempt, which contains others.
func encloses(s views.Span) bool { return s.Kind == views.SpanPhase || s.Kind == views.SpanStep }

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// outside reports whether a span is outside the time shown.
func (t *Timeline) outside(s views.Span) bool {
	return s.From.After(t.To) || s.End(t.Now).Before(t.From) || t.Query.hides(s.Kind)
}

// Heights of a lane's parts, in pixels.
const (
	aboveBars  = 4
	attemptBar = 12
	workBar    = 10
	betweenBar = 2
)

// work returns the lane of a phase or a step: its attempts, with their activities below.
func (t *Timeline) work(phase contract.Phase, step string, spans []views.Span) Lane {
	l := Lane{ID: "lane-" + string(phase) + "-" + step, Name: string(phase), Deep: step != "", Href: RunHref(t.Query.Run, "logs") + "?phase=" + string(phase)}
	if step != "" {
		l.Title = t.Names[step]
		l.Name, l.Href = step, RunHref(t.Query.Run, "logs")+"?phase="+string(phase)+"&step="+query(step)
	}
	attempts, y := 0, aboveBars
	for _, s := range spans {
		if s.Kind == views.SpanPhase || s.Kind == views.SpanStep {
			attempts++
			if l.More == "" && string(s.Agent) != l.Name {
				l.More = string(s.Agent)
			}
			if !t.outside(s) {
				b := t.bar(s, y, attemptBar)
				if s.Attempt > 1 {
					b.Word = strconv.Itoa(s.Attempt)
				}
				l.Bars = append(l.Bars, b)
			}
		}
	}
	if attempts > 1 {
		l.More = strings.TrimPrefix(l.More+" · ", " · ") + plural(attempts, "attempt", "attempts")
	}
	spans = slices.DeleteFunc(slices.Clone(spans), func(s views.Span) bool { return s.Kind == views.SpanPhase || s.Kind == views.SpanStep })
	l.Height = y + attemptBar + aboveBars
	if len(spans) > 0 {
		bars, bottom := t.packed(spans, y+attemptBar+betweenBar, packedRows)
		l.Bars, l.Height = append(l.Bars, bars...), bottom+aboveBars
	}
	return l
}

func (t *Timeline) lane(id, name string, spans []views.Span, rows int) Lane {
	l := Lane{ID: "lane-" + id, Name: name}
	bars, bottom := t.packed(spans, aboveBars, rows)
	l.Bars, l.Height = bars, bottom+aboveBars
	return l
}

// packed arranges spans in rows without overlaps, as far as the number of rows allows.
func (t *Timeline) packed(spans []views.Span, top, rows int) (bars []Bar, bottom int) {
	spans = slices.Clone(spans)
	slices.SortStableFunc(spans, func(a, b views.Span) int { return a.From.Compare(b.From) })
	var ends []time.Time
	for _, s := range spans {
		row := slices.IndexFunc(ends, func(end time.Time) bool { return !end.After(s.From) })
		switch {
		case row >= 0:
			ends[row] = s.End(t.Now)
		case len(ends) < rows:
			row, ends = len(ends), append(ends, s.End(t.Now))
		default:
			row = len(bars) % rows
		}
		bars = append(bars, t.bar(s, top+row*(workBar+betweenBar), workBar))
	}
	return bars, top + len(ends)*(workBar+betweenBar)
}

func (t *Timeline) bar(s views.Span, y, h int) Bar {
	x0, x1 := t.Scale.X(s.From), t.Scale.X(s.End(t.Now))
	x0 = min(x0, 1-narrowest)
	return Bar{Span: s, X: x0, W: max(narrowest, x1-x0), Y: y, H: h}
}

// href returns the address of a span on this timeline.
func (t *Timeline) href(s views.Span) string { return t.spans + query(s.Key) }

// label describes a span with its duration and cost.
func (t *Timeline) label(s views.Span) string {
	parts := []string{spanName(s), Lasted(s.End(t.Now).Sub(s.From)), spanState(s).word()}
	if s.Attempt > 1 {
		parts = append(parts, fmt.Sprintf("attempt %d", s.Attempt))
	}
	if s.Turn > 0 && s.Kind != views.SpanPhase && s.Kind != views.SpanStep {
		parts = append(parts, fmt.Sprintf("turn %d", s.Turn))
	}
	if s.Tries > 1 {
		parts = append(parts, plural(s.Tries, "try", "tries"))
	}
	if s.Tokens > 0 {
		parts = append(parts, Count(s.Tokens)+" tokens")
	}
	if s.MicroUSD > 0 {
		parts = append(parts, costOf(s.MicroUSD, s.Estimated))
	}
	if s.Detail != "" && s.Kind != views.SpanPhase && s.Kind != views.SpanStep || s.Status == contract.ExecutionFailed && s.Detail != "" {
		parts = append(parts, Cut(strings.ReplaceAll(s.Detail, "\n", " "), 120))
	}
	return strings.Join(parts, " · ")
}

func spanName(s views.Span) string {
	switch s.Kind {
	case views.SpanModel:
		return "Model " + Cut(s.Name, 60)
	case views.SpanTool:
		return "Tool " + Cut(s.Name, 60)
	case views.SpanTest:
		return "Check " + Cut(s.Name, 60)
	case views.SpanHeal:
		return "Heal: " + Words(s.Name)
	case views.SpanWait:
		return "Waiting for: " + Cut(s.Name, 80)
	case views.SpanStep:
		return "Step " + Cut(s.Name, 64)
	default:
		return "Phase " + Cut(s.Name, 60)
	}
}

// spanState returns the state for a span.
func spanState(s views.Span) State {
	switch {
	case s.Kind == views.SpanWait && s.Status == contract.ExecutionRunning:
		return Waiting
	case s.Kind == views.SpanHeal && s.Status == contract.ExecutionRunning:
		return Healing
	}
	return ExecutionState(s.Status)
}

var kindWords = map[views.SpanKind]string{
	views.SpanModel: "Model", views.SpanTool: "Tools", views.SpanTest: "Tests", views.SpanHeal: "Heals", views.SpanWait: "Waiting", views.SpanStep: "Steps",
}

func kindWord(k views.SpanKind) string { return cmp.Or(kindWords[k], "Phases") }

// share formats a position or a width for SVG.
func share(x float64) string { return strconv.FormatFloat(math.Round(x*1e5)/1e3, 'f', -1, 64) + "%" }

// zoom returns the address of the time range between two positions, which may be outside the range
// shown.
func (t *Timeline) zoom(x0, x1 float64) string {
	return t.Query.with(func(q *TimelineQuery) {
		from, to := t.extended(x0), t.extended(x1)
		if from.Before(t.Start) {
			from = t.Start
		}
		if to.After(t.End) {
			to = t.End
		}
		q.From, q.To = from.Sub(t.Start), to.Sub(t.Start)
		if !from.After(t.Start) && !to.Before(t.End) {
			q.From, q.To = 0, 0
		}
	})
}

// extended is like At, but also accepts positions beyond the edges.
func (t *Timeline) extended(x float64) time.Time {
	whole := float64(t.To.Sub(t.From))
	switch {
	case x < 0:
		return t.From.Add(time.Duration(x * whole))
	case x > 1:
		return t.To.Add(time.Duration((x - 1) * whole))
	default:
		return t.Scale.At(x)
	}
}

func (t *Timeline) zoomed() bool { return t.Query.To > t.Query.From }

// stretches returns the scale for the script: start and end of each part in milliseconds since the
// run began, and their positions.
func (t *Timeline) stretches() string {
	out := make([][4]float64, len(t.Scale.parts))
	for i, p := range t.Scale.parts {
		out[i] = [4]float64{float64(p.from.Sub(t.Start).Milliseconds()), float64(p.to.Sub(t.Start).Milliseconds()), p.x0, p.x1}
	}
	text, err := json.Marshal(out)
	if err != nil {
		return "[]" // cannot happen: these are numbers
	}
	return string(text)
}

// miniBars returns the bars of the small timeline: attempts of phases, overlaid with heals and
// waits.
func miniBars(work, pauses []views.Span, run store.Run) (bars []Bar, from, to time.Time) {
	now := time.Now()
	all := append(slices.Clone(work), pauses...)
	t := Timeline{Now: now}
	from, to = Extent(run, all, now)
	t.Scale = NewScale(from, to, all, false)
	phases := contract.Phases()
	for _, s := range all {
		row := slices.Index(phases, s.Phase)
		switch s.Kind {
		case views.SpanPhase:
			bars = append(bars, t.bar(s, max(0, row)*miniRow+1, miniRow-2))
		case views.SpanHeal, views.SpanWait:
			if row < 0 { // an approval: of a plan, in the planner's row
				row = slices.Index(phases, contract.PhaseReleaser)
				if s.Name == "plan" {
					row = slices.Index(phases, contract.PhasePlanner)
				}
			}
			bars = append(bars, t.bar(s, row*miniRow+3, miniRow-6))
		case views.SpanStep, views.SpanModel, views.SpanTool, views.SpanTest: // too small here
		}
	}
	return bars, from, to
}

const miniRow = 10 // pixels of a phase in the small timeline
