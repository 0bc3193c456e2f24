// Package dberr explains database errors: each becomes a fault that names the failed operation,
// with the class and code by which callers decide whether to retry.
package dberr

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

// ErrNotFound means that a run, execution or row does not exist.
var ErrNotFound = errors.New("not found")

// CodeNotFound is the code of ErrNotFound.
const CodeNotFound contract.Code = "not_found"

// Explain turns a database error into a fault that names the failed operation. Faults are returned
// unchanged.
func Explain(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	var known *fault.Error
	if errors.As(err, &known) {
		return err
	}
	what := fmt.Sprintf(format, args...)
	var pg *pgconn.PgError
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return NotFound("cannot %s: not found", what)
	case errors.As(err, &pg) && pg.Code == "23503": // a foreign key to a missing row
		return NotFound("cannot %s: %s", what, pg.Detail)
	}
	switch {
	case down(err):
		return fault.Wrap(err, contract.ClassInfra, contract.CodeDatabaseDown, "cannot %s: the database is not responding", what)
	case pg != nil && unable(pg.Code):
		return fault.Wrap(err, contract.ClassInfra, contract.CodeDatabaseDown, "cannot %s: the database cannot process the request right now: %s (SQLSTATE %s)", what, pg.Message, pg.Code)
	}
	f := fault.Of(err)
	return fault.Wrap(err, f.Class, f.Code, "cannot %s", what)
}

// down reports whether an error means that the database was down: it was unreachable, stopped in
// mid-statement, or is still starting. Such operations are retried for as long as it takes.
func down(err error) bool {
	var connect *pgconn.ConnectError
	if errors.As(err, &connect) || strings.Contains(err.Error(), "conn closed") {
		return !errors.Is(err, context.Canceled)
	}
	f := fault.Of(err)
	return f.Class == contract.ClassInfra && (f.Code == contract.CodeUnavailable || f.Code == contract.CodeTimeout)
}

// unable reports whether an SQLSTATE (PostgreSQL manual, appendix A) means that the database is
// running but cannot work until someone repairs it: it is out of space or memory (class 53), its
// disk fails (58), it is read-only (25006) or damaged (XX001, XX002). No work is abandoned because
// of that.
func unable(state string) bool {
	return strings.HasPrefix(state, "53") || strings.HasPrefix(state, "58") || slices.Contains([]string{"25006", "XX001", "XX002"}, state)
}

// NotFound returns an error that wraps ErrNotFound.
func NotFound(format string, args ...any) error {
	return fault.Wrap(ErrNotFound, contract.ClassHuman, CodeNotFound, format, args...)
}

// NoRun returns the error for a run that does not exist.
func NoRun(id int64) error {
	return NotFound("run %d not found; see rgpt run list", id)
}

// Or is like Explain, but returns missing if there is no row.
func Or(err, missing error, format string, args ...any) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return missing
	}
	return Explain(err, format, args...)
}

// OfRun is like Explain, for a statement that finds no row if the run does not exist.
func OfRun(err error, runID int64, format string, args ...any) error {
	return Or(err, NoRun(runID), format, args...)
}

// Closed returns the error of a store or feed that was closed.
func Closed() error {
	return fault.New(contract.ClassInfra, contract.CodeCancelled, "the store was closed")
}
