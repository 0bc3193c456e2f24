// Package commands applies the commands that people and services send to a workflow, each at most
// once.
package commands

import (
	"go.temporal.io/sdk/workflow"

	"github.com/rocketgpt/orchestrator/internal/fault"
)

// Command is one request that people and services can send to a workflow: as an update, which has a
// response, or as a signal of the same name. A is the type of its arguments, R of its response.
type Command[A, R any] struct {
	Name string
	// Check returns why the command cannot be applied now, nil if it can. It changes nothing. A
	// command without Check can always be applied.
	Check func(A) error
	// Prepare fetches what Apply needs, if anything. It may take time, in which another
	// command may be accepted first, so it must not change the workflow's state.
	Prepare func(workflow.Context, A) error
	// Apply changes the state and records what happened.
	Apply func(workflow.Context, A) (R, error)
}

// Commands applies the commands of one workflow: each at most once, by its ID.
type Commands[A, R any] struct {
	// ID returns the ID that a command's sender chose; empty for none.
	ID func(A) string
	// Accepts returns why a command of this name cannot be accepted now, regardless of its own
	// Check. It changes nothing.
	Accepts func(name string, args A) error
	// Repeated returns the response to a command that has already been applied.
	Repeated func(name string, args A) R
	// Refused records why a signal had no effect: its sender gets no response.
	Refused func(ctx workflow.Context, name string, args A, why error)

	applied []string // IDs, oldest first
	known   map[string]struct{}
	handled int // since the workflow run began
	busy    int // commands being applied or refused
}

// keptIDs is the number of command IDs that a workflow keeps when it continues as new: a sender
// that repeats a command does so soon.
const keptIDs = 500

// Register registers commands, in an order that must be the same at each replay. The IDs belong to
// commands that an earlier run of the workflow applied.
func (c *Commands[A, R]) Register(ctx workflow.Context, ids []string, table ...Command[A, R]) error {
	c.applied, c.known = nil, map[string]struct{}{}
	for _, id := range ids {
		c.remember(id)
	}
	for _, cmd := range table {
		if err := c.register(ctx, cmd); err != nil {
			return err
		}
	}
	return nil
}

// Applied returns the IDs of the last applied commands, oldest first.
func (c *Commands[A, R]) Applied() []string {
	return c.applied[max(0, len(c.applied)-keptIDs):]
}

// Handled returns how many commands arrived since the workflow run began, including
// repeated and refused ones.
func (c *Commands[A, R]) Handled() int { return c.handled }

// Idle reports whether no command is being applied or refused.
func (c *Commands[A, R]) Idle() bool { return c.busy == 0 }

func (c *Commands[A, R]) remember(id string) {
	if _, known := c.known[id]; !known && id != "" {
		c.known[id] = struct{}{}
		c.applied = append(c.applied, id)
	}
}

func (c *Commands[A, R]) register(ctx workflow.Context, cmd Command[A, R]) error {
	update := func(ctx workflow.Context, args A) (R, error) { return c.apply(ctx, cmd, args) }
	validator := func(_ workflow.Context, args A) error { return c.validate(cmd, args) }
	if err := workflow.SetUpdateHandlerWithOptions(ctx, cmd.Name, update, workflow.UpdateHandlerOptions{Validator: validator}); err != nil {
		return err
	}
	signals := workflow.GetSignalChannel(ctx, cmd.Name)
	workflow.Go(ctx, func(ctx workflow.Context) {
		for {
			var args A
			if !signals.Receive(ctx, &args) {
				return
			}
			c.busy++
			err := c.validate(cmd, args)
			if err == nil {
				_, err = c.apply(ctx, cmd, args)
			}
			if err != nil {
				c.Refused(ctx, cmd.Name, args, err)
			}
			c.busy--
		}
	})
	return nil
}

// validate returns why a command cannot be accepted.
func (c *Commands[A, R]) validate(cmd Command[A, R], args A) error {
	if c.wasApplied(args) {
		return nil // acknowledged again
	}
	if err := c.Accepts(cmd.Name, args); err != nil || cmd.Check == nil {
		return err
	}
	return cmd.Check(args)
}

// apply applies a command once.
func (c *Commands[A, R]) apply(ctx workflow.Context, cmd Command[A, R], args A) (R, error) {
	c.handled++
	if cmd.Prepare != nil && !c.wasApplied(args) {
		var none R
		if err := cmd.Prepare(ctx, args); err != nil {
			return none, err
		}
		if err := c.validate(cmd, args); err != nil {
			return none, Rejected("another command was accepted first: %s", fault.Of(err).Message)
		}
	}
	if c.wasApplied(args) {
		return c.Repeated(cmd.Name, args), nil
	}
	c.remember(c.ID(args))
	return cmd.Apply(ctx, args)
}

func (c *Commands[A, R]) wasApplied(args A) bool {
	_, done := c.known[c.ID(args)]
	return done
}

// RunSignalHandlers yields so that the coroutines woken by this workflow task's signals run first.
// It takes no time and adds no command to the history.
func RunSignalHandlers(ctx workflow.Context) {
	own, done := workflow.NewDisconnectedContext(ctx)
	defer done()
	ran := false
	workflow.Go(own, func(workflow.Context) { ran = true }) // the last of them
	_ = workflow.Await(own, func() bool { return ran })     // nothing cancels it
}
