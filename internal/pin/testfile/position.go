package testfile

import (
	"github.com/rocketgpt/orchestrator/internal/pin/lexer"
)

// Position is the place that a walk through a file has reached.
type Position struct {
	Unit       *Unit
	Weight     int          // how often the place is passed: once for each case of a table
	Conditions int          // around it
	Guard      lexer.Digest // the innermost condition
	TopLevel   bool         // directly in the body of the unit
	Swallowed  bool         // failures do not get out of here
	Nesting    int          // how many blocks are around it
}

// Add records a check.
func (p Position) Add(c Check) {
	if p.Swallowed {
		return
	}
	c.Weight = p.Weight
	p.Unit.Checks = append(p.Unit.Checks, c)
}
