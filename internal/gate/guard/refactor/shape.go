package refactor

import (
	"fmt"

	"github.com/rocketgpt/orchestrator/internal/gate/change"
)

// mild begins the reasons that break few users.
const mild = "\x00"

// why returns why code that uses one shape cannot use another one, or "".
func why(b, a shape) string {
	switch {
	case !b.known || !a.known || a.alias || b.alias:
		return ""
	case b.text != "" || a.text != "":
		if b.text == a.text || b.text == "" || a.text == "" {
			return ""
		}
		return fmt.Sprintf("it is %s instead of %s", change.Clean(a.text), change.Clean(b.text))
	case a.positional:
		if r := positional(b, a); r != "" {
			return r
		}
	default:
		if r := named(b, a); r != "" {
			return r
		}
	}
	if b.result == a.result || b.result == "" && !a.typed {
		return ""
	}
	r := fmt.Sprintf("its result is %s instead of %s", orNone(a.result), orNone(b.result))
	if !a.typed {
		return mild + r
	}
	return r
}

func orNone(s string) string {
	if s == "" {
		return "nothing"
	}
	return change.Clean(s)
}

// positional compares parameters that callers give by their position.
func positional(b, a shape) string {
	for i, p := range a.params {
		switch {
		case i >= len(b.params):
			if !p.optional && !p.variadic && !variadic(b.params) {
				return fmt.Sprintf("it requires a new parameter %s", change.Clean(display(p, i)))
			}
		case b.params[i].optional && !p.optional && !p.variadic:
			return fmt.Sprintf("its parameter %s is no longer optional", change.Clean(display(p, i)))
		case b.params[i].variadic && !p.variadic && a.typed:
			return fmt.Sprintf("its parameter %s is no longer variadic", change.Clean(display(p, i)))
		case a.typed && (p.typ != b.params[i].typ || p.variadic != b.params[i].variadic):
			if len(a.params) > len(b.params) {
				return fmt.Sprintf("it has %d parameters instead of %d", len(a.params), len(b.params))
			}
			if len(a.params) == len(b.params) {
				return fmt.Sprintf("its parameter %d is %s instead of %s", i+1, change.Clean(p.typ), change.Clean(b.params[i].typ))
			}
		}
	}
	if len(a.params) < len(b.params) && !variadic(a.params) {
		return fmt.Sprintf("it has %d parameters instead of %d", len(a.params), len(b.params))
	}
	return ""
}

func variadic(list []param) bool { return len(list) > 0 && list[len(list)-1].variadic }

func display(p param, i int) string {
	switch {
	case p.name != "":
		return p.name
	case p.typ != "":
		return p.typ
	}
	return fmt.Sprint(i + 1)
}

// named compares parameters that callers may give by their names.
func named(b, a shape) string {
	is, was := map[string]param{}, map[string]param{}
	for _, p := range a.params {
		is[p.name] = p
	}
	for _, p := range b.params {
		was[p.name] = p
	}
	renamed := ""
	for i, p := range a.params {
		old, known := was[p.name]
		switch {
		case known && old.optional && !p.optional:
			return fmt.Sprintf("its parameter %s is no longer optional", change.Clean(p.name))
		case known || p.optional || p.variadic:
		case i < len(b.params) && len(a.params) == len(b.params) && !b.params[i].variadic:
			if _, stays := is[b.params[i].name]; stays {
				return fmt.Sprintf("it requires a new parameter %s", change.Clean(p.name))
			}
			renamed = fmt.Sprintf("%sits parameter %s is named %s", mild, change.Clean(b.params[i].name), change.Clean(p.name))
		default:
			return fmt.Sprintf("it requires a new parameter %s", change.Clean(p.name))
		}
	}
	for i, p := range b.params {
		if _, stays := is[p.name]; stays || p.variadic {
			continue
		}
		if len(a.params) == len(b.params) && renamed != "" || i < len(a.params) && a.params[i].optional && p.optional && len(a.params) == len(b.params) {
			if renamed == "" {
				renamed = fmt.Sprintf("%sits parameter %s is named %s", mild, change.Clean(p.name), change.Clean(a.params[i].name))
			}
			continue
		}
		if variadic(a.params) {
			continue // it takes any
		}
		return fmt.Sprintf("its parameter %s is gone", change.Clean(p.name))
	}
	return renamed
}
