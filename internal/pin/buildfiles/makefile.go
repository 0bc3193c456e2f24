package buildfiles

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/rocketgpt/orchestrator/internal/pin/lexer"
)

var (
	targetLine = regexp.MustCompile(`^([\w./%-]+(?:\s+[\w./%-]+)*)\s*::?\s*([^=].*)?$`)
	testTarget = regexp.MustCompile(`^(tests?|check|ci|verify|tests?[-_/].*|.*[-_/]tests?|e2e|unit|integration)$`)
)

// target is a target of a Makefile.
type target struct{ needs, recipe strings.Builder }

func targetsOf(data []byte) map[string]*target {
	out := map[string]*target{}
	var current []string
	for _, line := range Uncommented(data, "#") {
		if recipe, ok := strings.CutPrefix(line, "\t"); ok {
			for _, t := range current {
				out[t].recipe.WriteString(recipe + "\n")
			}
			continue
		}
		m := targetLine.FindStringSubmatch(line)
		if m == nil {
			if strings.TrimSpace(line) != "" {
				current = nil
			}
			continue
		}
		head, _, _ := strings.Cut(m[2], "#")
		needs, recipe, _ := strings.Cut(head, ";")
		current = current[:0:0]
		for _, t := range strings.Fields(m[1]) {
			if testTarget.MatchString(t) && len(current) < maxTargets {
				if out[t] == nil {
					out[t] = &target{}
				}
				out[t].needs.WriteString(" " + needs)
				out[t].recipe.WriteString(recipe)
				current = append(current, t)
			}
		}
	}
	return out
}

// makeTargets judges the targets that run tests.
func makeTargets(c *Change) {
	before, after := targetsOf(c.Before), targetsOf(c.After)
	for _, t := range slices.Sorted(maps.Keys(after)) {
		if _, ok := before[t]; !ok {
			c.Command("target "+t, "", after[t].recipe.String())
		}
	}
	for _, t := range slices.Sorted(maps.Keys(before)) {
		is, ok := after[t]
		if !ok {
			c.Exclude("", "target "+t+" is gone")
			continue
		}
		compareTarget(c, t, before[t], is)
	}
	sign := regexp.MustCompile(`(?m)^\.IGNORE\s*:|^MAKEFLAGS\s*\+?=.*(-i\b|--ignore-errors)`)
	if sign.Match(c.After) && !sign.Match(c.Before) {
		c.Exclude("", "recipe failures do not count")
	}
}

// maxTargets is the maximum number of targets read from one rule.
const maxTargets = 64

func compareTarget(c *Change, name string, was, is *target) {
	name = "target " + name
	needed, needs := strings.Fields(was.needs.String()), strings.Fields(is.needs.String())
	before, after := was.recipe.String(), is.recipe.String()
	has, mentions := lexer.Set(is.needs.String()), lexer.Set(after)
	for _, n := range needed {
		if !has[n] && !mentions[n] {
			c.Exclude(after, name+" no longer needs "+n)
			return
		}
	}
	if ignoredFailures(after) > ignoredFailures(before) {
		c.Exclude(after, name+": failures do not count")
		return
	}
	if strings.TrimSpace(after) == "" && len(needs) > len(needed) {
		after = "make " + is.needs.String()
	}
	c.Command(name, before, after)
}

// ignoredFailures counts the recipe lines whose failure is ignored.
func ignoredFailures(recipe string) int {
	n := 0
	for line := range strings.Lines(recipe) {
		if strings.HasPrefix(strings.TrimLeft(line, "@ \t"), "-") {
			n++
		}
	}
	return n
}
