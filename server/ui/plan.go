package ui

import (
	"cmp"
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/views"
)

// Dimensions of a plan's drawing, in pixels.
const (
	planNodeWidth  = 240
	planNodeHeight = 68
	bendHeight     = 10 // of an edge that crosses a layer
	acrossGap      = 56
	downGap        = 14
	aroundPlan     = 12
)

// PlanZooms returns the zoom levels of a plan, in percent.
func PlanZooms() []int { return []int{50, 75, 100, 150} }

// PlanQuery is the query in a plan's address.
type PlanQuery struct {
	Run      int64
	Version  int64 // 0 means the plan in force
	Against  int64 // version to compare it with; 0 means the previous one
	Step     string
	Zoom     int // in percent
	Critical bool
}

// Href returns the address of the requested plan.
func (q PlanQuery) Href() string {
	v := url.Values{}
	for name, n := range map[string]int64{"version": q.Version, "against": q.Against} {
		if n > 0 {
			v.Set(name, strconv.FormatInt(n, 10))
		}
	}
	if q.Step != "" {
		v.Set("step", q.Step)
	}
	if q.Zoom != 0 && q.Zoom != 100 {
		v.Set("zoom", strconv.Itoa(q.Zoom))
	}
	if q.Critical {
		v.Set("critical", "1")
	}
	href := RunHref(q.Run, "plan")
	if len(v) > 0 {
		href += "?" + v.Encode()
	}
	return href
}

func (q PlanQuery) with(change func(*PlanQuery)) string {
	change(&q)
	return q.Href()
}

// StepHref returns the address of a step in the plan of its run.
func StepHref(run int64, step string) string { return PlanQuery{Run: run, Step: step}.Href() }

// PlanNode is a step with its position in the drawing.
type PlanNode struct {
	contract.Step
	Number   int // in an order that respects dependencies, from 1
	State    State
	Attempts int
	Took     time.Duration
	Critical bool
	Selected bool
	X, Y     int
}

// PlanEdge is a dependency in the drawing.
type PlanEdge struct {
	From, To string
	Path     string
	Critical bool
	Near     bool // of the selected step
}

// PlanGraph is the drawing of a plan.
type PlanGraph struct {
	Nodes         []PlanNode
	Edges         []PlanEdge
	Width, Height int
	Chain         int           // steps of the critical path
	ChainTook     time.Duration // 0 if nothing was done yet
}

// cell is a slot in a layer: a step, or an edge that crosses it.
type cell struct {
	step   string // empty if an edge crosses
	up     []*cell
	weight float64
	y, h   int
}

// DrawPlan lays out a plan: each step is in the layer after its last dependency. Dependencies
// implied by others are not drawn. Work lists the executions of the plan's steps.
func DrawPlan(plan contract.Plan, work []views.Span, run store.Run, q PlanQuery) PlanGraph {
	order := plan.Order()
	if len(order) != len(plan.Steps) { // a plan with a cycle cannot be carried out; its steps are shown in the original order
		order = nil
		for _, s := range plan.Steps {
			order = append(order, s.ID)
		}
	}
	needs := map[string][]string{}
	for _, s := range plan.Skeleton().Steps {
		needs[s.ID] = s.Dependencies
	}
	layer, layers := layersOf(order, needs)
	cells, columns, chains := cellsOf(order, needs, layer, layers)
	arrange(columns)
	g := PlanGraph{}
	states := stepStates(work, run)
	critical := criticalSteps(plan, order, needs, states)
	g.Chain = len(critical)
	at := map[string]PlanNode{}
	for number, id := range order {
		step, _ := plan.Step(id)
		n := PlanNode{Step: step, Number: number + 1, State: Queued, Selected: id == q.Step, Critical: q.Critical && slices.Contains(critical, id)}
		if s, ok := states[id]; ok {
			n.State, n.Attempts, n.Took = s.state, s.attempts, s.took
		}
		n.X, n.Y = aroundPlan+layer[id]*(planNodeWidth+acrossGap), cells[id].y+aroundPlan
		g.Width, g.Height = max(g.Width, n.X+planNodeWidth+aroundPlan), max(g.Height, n.Y+planNodeHeight+aroundPlan)
		if slices.Contains(critical, id) {
			g.ChainTook += n.Took
		}
		at[id] = n
		g.Nodes = append(g.Nodes, n)
	}
	for _, id := range order {
		for _, from := range needs[id] {
			if _, known := at[from]; !known {
				continue
			}
			chain := chains[[2]string{from, id}]
			i := slices.Index(critical, id)
			g.Edges = append(g.Edges, PlanEdge{
				From: from, To: id, Path: edgePath(at[from], at[id], layer[from], chain),
				Critical: q.Critical && i > 0 && critical[i-1] == from, Near: q.Step != "" && (q.Step == id || q.Step == from),
			})
		}
	}
	for _, bends := range chains {
		for _, c := range bends {
			g.Height = max(g.Height, c.y+bendHeight+2*aroundPlan)
		}
	}
	return g
}

// layersOf assigns each step to the layer after its last dependency.
func layersOf(order []string, needs map[string][]string) (layer map[string]int, layers int) {
	layer = map[string]int{}
	for _, id := range order {
		at := 0
		for _, d := range needs[id] {
			if n, ok := layer[d]; ok {
				at = max(at, n+1)
			}
		}
		layer[id] = at
		layers = max(layers, at+1)
	}
	return layer, layers
}

// cellsOf fills the layers with steps, and with a thin cell for each edge that crosses one.
func cellsOf(order []string, needs map[string][]string, layer map[string]int, layers int) (of map[string]*cell, columns [][]*cell, bends map[[2]string][]*cell) {
	of, columns, bends = map[string]*cell{}, make([][]*cell, layers), map[[2]string][]*cell{}
	for _, id := range order {
		c := &cell{step: id, h: planNodeHeight}
		of[id] = c
		for _, from := range needs[id] {
			before, known := of[from]
			if !known {
				continue
			}
			for at := layer[from] + 1; at < layer[id]; at++ {
				bend := &cell{up: []*cell{before}, h: bendHeight}
				columns[at] = append(columns[at], bend)
				bends[[2]string{from, id}] = append(bends[[2]string{from, id}], bend)
				before = bend
			}
			c.up = append(c.up, before)
		}
		columns[layer[id]] = append(columns[layer[id]], c)
	}
	return of, columns, bends
}

// arrange orders the cells of each layer by their neighbours in the previous layer, and centres
// each layer.
func arrange(columns [][]*cell) {
	tallest := 0
	for _, column := range columns {
		place(column, 0)
		for _, c := range column {
			c.weight = float64(c.y)
			if len(c.up) > 0 {
				c.weight = 0
				for _, u := range c.up {
					c.weight += float64(u.y + u.h/2)
				}
				c.weight /= float64(len(c.up))
			}
		}
		slices.SortStableFunc(column, func(a, b *cell) int { return cmp.Compare(a.weight, b.weight) })
		tallest = max(tallest, place(column, 0))
	}
	for _, column := range columns {
		place(column, (tallest-place(column, 0))/2)
	}
}

// place stacks cells and returns their total height.
func place(column []*cell, top int) int {
	y := top
	for _, c := range column {
		c.y = y
		y += c.h + downGap
	}
	return max(0, y-downGap-top)
}

// edgePath draws an edge as a smooth line through the points where it crosses layers.
func edgePath(from, to PlanNode, layer int, bends []*cell) string {
	x, y := from.X+planNodeWidth, from.Y+planNodeHeight/2
	d := fmt.Sprintf("M%d %d", x, y)
	curve := func(toX, toY int) {
		middle := (x + toX) / 2
		d += fmt.Sprintf(" C%d %d %d %d %d %d", middle, y, middle, toY, toX, toY)
		x, y = toX, toY
	}
	for i, b := range bends {
		left := aroundPlan + (layer+1+i)*(planNodeWidth+acrossGap)
		curve(left, b.y+aroundPlan+bendHeight/2)
		x = left + planNodeWidth
		d += fmt.Sprintf(" H%d", x)
	}
	curve(to.X, to.Y+planNodeHeight/2)
	return d
}

type stepState struct {
	state    State
	attempts int
	took     time.Duration
}

// stepStates returns the states of a plan's steps, according to their latest executions.
func stepStates(work []views.Span, run store.Run) map[string]stepState {
	out := map[string]stepState{}
	for _, s := range work {
		if s.Kind != views.SpanStep || s.Phase != contract.PhaseBuilder {
			continue
		}
		state := ExecutionState(s.Status)
		switch whole := StateOf(run.Status); {
		case state == Failed && whole == Healing && run.Phase == contract.PhaseBuilder:
			state = Healing
		case state == Running && whole == Paused:
			state = Paused
		}
		out[s.Step] = stepState{state, max(s.Attempt, out[s.Step].attempts), s.End(time.Now()).Sub(s.From)}
	}
	return out
}

// criticalSteps returns the chain of steps that took longest, in order. Before the first execution
// it is the chain with the highest estimated complexity.
func criticalSteps(plan contract.Plan, order []string, needs map[string][]string, states map[string]stepState) []string {
	until, before := map[string]time.Duration{}, map[string]string{}
	last := ""
	for _, id := range order {
		step, _ := plan.Step(id)
		for _, d := range needs[id] {
			if until[d] > until[before[id]] || before[id] == "" {
				before[id] = d
			}
		}
		until[id] = until[before[id]] + states[id].took + time.Duration(levelWeight(step.EstimatedComplexity))
		if last == "" || until[id] > until[last] {
			last = id
		}
	}
	var chain []string
	for id := last; id != "" && !slices.Contains(chain, id); id = before[id] {
		chain = append(chain, id)
	}
	slices.Reverse(chain)
	return chain
}

func levelWeight(l contract.Level) int {
	switch l {
	case contract.LevelHigh:
		return 3
	case contract.LevelMedium:
		return 2
	default:
		return 1
	}
}

// StepChange is the difference of a step between two versions of a plan.
type StepChange struct {
	ID, Name string
	What     string // added, removed or changed
	Fields   []string
}

// ComparePlans returns the changes of a plan's steps since an earlier version.
func ComparePlans(before, after contract.Plan) (out []StepChange) {
	for _, s := range after.Steps {
		old, known := before.Step(s.ID)
		if !known {
			out = append(out, StepChange{s.ID, s.Name, "added", nil})
			continue
		}
		fields := changedFields(old, s)
		if len(after.Steps) == 1 && !slices.Equal(before.Edits, after.Edits) {
			fields = append(fields, "edits")
		}
		if len(fields) > 0 {
			out = append(out, StepChange{s.ID, s.Name, "changed", fields})
		}
	}
	for _, s := range before.Steps {
		if _, kept := after.Step(s.ID); !kept {
			out = append(out, StepChange{s.ID, s.Name, "removed", nil})
		}
	}
	return out
}

func changedFields(a, b contract.Step) (out []string) {
	x, y := reflect.ValueOf(a), reflect.ValueOf(b)
	for i := range x.NumField() {
		p, q := x.Field(i), y.Field(i)
		if p.Kind() == reflect.Slice && p.Len() == 0 && q.Len() == 0 {
			continue
		}
		if !reflect.DeepEqual(p.Interface(), q.Interface()) {
			out = append(out, Words(x.Type().Field(i).Tag.Get("json")))
		}
	}
	return out
}
