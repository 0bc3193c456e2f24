package testfile

import (
	"cmp"
	"slices"
)

// maxWeight is the maximum count: helpers that each call other helpers twice would overflow any
// number.
const maxWeight = 1 << 20

// Saturate limits a count.
func Saturate(n int) int { return max(0, min(n, maxWeight)) }

// Tally counts the checks of a test, including those in called functions.
type Tally struct{ Total, Exact, Vague, Always, NoError, Fails, FailsAs int }

func (t Tally) plus(o Tally, weight int, conditional bool) Tally {
	t.Total = Saturate(t.Total + Saturate(o.Total)*weight)
	t.Exact = Saturate(t.Exact + Saturate(o.Exact)*weight)
	t.Vague = Saturate(t.Vague + Saturate(o.Vague)*weight)
	t.NoError = Saturate(t.NoError + Saturate(o.NoError)*weight)
	t.Fails = Saturate(t.Fails + Saturate(o.Fails)*weight)
	t.FailsAs = Saturate(t.FailsAs + Saturate(o.FailsAs)*weight)
	if !conditional {
		t.Always = Saturate(t.Always + Saturate(o.Always)*weight)
	}
	return t
}

func (c Check) tally() Tally {
	t := Tally{Total: 1, Exact: 1, Always: 1}
	if c.Vague {
		t.Exact, t.Vague = 0, 1
	}
	if c.NoError {
		t.NoError = 1
	}
	if c.Fails {
		t.Fails = 1
	}
	if c.FailsAs {
		t.FailsAs = 1
	}
	return t
}

// Index finds the functions of all files on one side of a change and counts their checks.
type Index struct {
	helpers   map[string][]*Unit
	local     map[*File]map[scoped]*Unit
	inclusive map[*Unit]Tally
}

// scoped is a name within a function, or in the whole file.
type scoped struct {
	inside *Unit
	key    string
}

// Add adds the functions of a file.
func (d *Index) Add(s *File) {
	own := map[scoped]*Unit{}
	for _, u := range s.Units {
		if u.Key == "" {
			continue
		}
		own[scoped{u.Inside, u.Key}] = u
		if u.Inside != nil {
			continue
		}
		if k := s.Scope + u.Key; len(d.helpers[k]) < maxHomonyms {
			d.helpers[k] = append(d.helpers[k], u)
		}
	}
	d.local[s] = own
}

// Tally counts the checks of a unit and its called functions, but not the checks of the tests in
// it.
func (d *Index) Tally(u *Unit) Tally {
	switch u.state {
	case 1:
		return Tally{} // it calls itself
	case 2:
		return u.tallied
	}
	u.state = 1
	var t Tally
	for _, c := range u.Checks {
		if use := d.use(u, c.Given); use != Unused {
			t = t.plus(c.tally(), c.Weight, c.Conditional || use == Sometimes)
		}
	}
	for _, c := range u.Calls {
		if use := d.use(u, c.Given); use != Unused {
			t = t.plus(d.called(u, c), c.Weight, c.Conditional || use == Sometimes)
		}
	}
	u.tallied, u.state = t, 2
	return t
}

// use returns how functions use what they are given. Unknown functions call it.
func (d *Index) use(from *Unit, g *Given) Use {
	use := Always
	for depth := 0; g != nil && depth < MaxDepth; g, depth = g.Outer, depth+1 {
		for _, u := range d.Callees(from, g.To) {
			if n, isCallback := u.Callbacks[g.Position]; isCallback {
				use = min(use, n)
			}
		}
	}
	return use
}

// Callees returns what a key means in a unit: the innermost function of that name around it, or those
// of that name in other files.
func (d *Index) Callees(from *Unit, key string) []*Unit {
	around := from
	for depth := 0; depth < MaxDepth; depth++ {
		if u := d.local[from.File][scoped{around, key}]; u != nil {
			return []*Unit{u}
		}
		if around == nil {
			break
		}
		around = cmp.Or(around.Inside, around.Parent)
	}
	return d.helpers[from.File.Scope+key]
}

// called returns the checks of a call from a unit. Of several functions with the same name in other
// files, the weakest counts.
func (d *Index) called(from *Unit, c Call) Tally {
	candidates := d.Callees(from, c.Key)
	if len(candidates) == 0 {
		return Tally{Total: c.Assumed, Exact: c.Assumed, Always: c.Assumed}
	}
	least := d.Tally(candidates[0])
	for _, u := range candidates[1:] {
		if t := d.Tally(u); t.Total < least.Total {
			least = t
		}
	}
	return least
}

// TallyWithSubtests counts the checks of a test including those of the tests in it.
func (d *Index) TallyWithSubtests(u *Unit) Tally {
	if d.inclusive == nil {
		d.inclusive = map[*Unit]Tally{}
		for s := range d.local {
			for _, u := range slices.Backward(s.Units) {
				t := d.Tally(u).plus(d.inclusive[u], 1, false)
				d.inclusive[u] = t
				if u.Parent != nil {
					d.inclusive[u.Parent] = d.inclusive[u.Parent].plus(t, 1, false)
				}
			}
		}
	}
	return d.inclusive[u]
}

// maxHomonyms is the maximum number of functions with the same name that are distinguished.
const maxHomonyms = 8

// NewIndex returns an empty index.
func NewIndex() *Index {
	return &Index{helpers: map[string][]*Unit{}, local: map[*File]map[scoped]*Unit{}}
}
