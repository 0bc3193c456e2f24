package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rocketgpt/orchestrator/internal/backend"
	"github.com/rocketgpt/orchestrator/internal/control"
)

func newRunFollowUp(a *app) *cobra.Command {
	var c creation
	cmd := &cobra.Command{
		Use: "follow-up RUN GOAL", Short: "Start a new run that continues the branch of a finished run",
		Long: `Starts a new run that adds commits to the branch of a finished run. Its agents know what the earlier
run was asked for and what it did. It starts from the branch's current commit, including commits that
people have added, and has its own budget. A pull request for the branch shows the new commits.`,
		Example: `  rgpt run follow-up 42 "now also write the docs" --wait
  rgpt run follow-up 42 --goal-file review.md --approve-release`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 1 || len(args) > 2 {
				return usageError{fmt.Errorf("expected a run and a goal in quotes, got %d arguments", len(args))}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			c.watch = cmd.Flags().Changed("stay")
			if len(args) == 2 {
				c.Goal = args[1]
			}
			return a.followUp(cmd, args[0], c)
		},
	}
	f := cmd.Flags()
	f.StringVar(&c.Description, "description", "", "additional details about the goal")
	f.StringVar(&c.goalFile, "goal-file", "", "read the goal from this file; - is standard input")
	pictureFlag(cmd, &c)
	f.StringVar(&c.Model, "model", "", "model for all agents, as provider/model (default: as for the finished run if its request named one, otherwise as configured)")
	effortFlag(cmd, &c.Effort, "as configured")
	f.StringVar(&c.PlanBy, "plan-by", "", "planner, deliberation or auto; see rgpt run create")
	f.BoolVar(&c.ApprovePlan, "approve-plan", false, "wait for approval before building")
	f.BoolVar(&c.ApproveRelease, "approve-release", false, "wait for approval before releasing")
	f.StringVar(&c.Key, "idempotency-key", "", "requests with the same key create only one run")
	f.BoolVar(&c.wait, "wait", false, "follow the run until it ends")
	f.DurationVar(&c.watchTime, "stay", 0, "how long the run watches its branch after the release (git.stay)")
	f.DurationVar(&c.timeout, "timeout", 0, "maximum duration of the run (execution.run.time)")
	f.StringArrayVar(&c.set, "set", nil, "set a configuration key for this run: key=value; repeatable")
	complete(cmd, "plan-by", []string{"auto", "planner", "deliberation"})
	return cmd
}

// followUp creates a run that continues the branch of another one.
func (a *app) followUp(cmd *cobra.Command, of string, c creation) error {
	id, err := runID(of)
	if err != nil {
		return err
	}
	if err := a.takeSettings(c); err != nil {
		return err
	}
	if c.goalFile != "" {
		if c.Goal != "" {
			return usageError{errors.New("a goal and --goal-file cannot be combined")}
		}
		if c.Goal, err = a.read(c.goalFile); err != nil {
			return err
		}
	}
	if strings.TrimSpace(c.Goal) == "" {
		return usageError{fmt.Errorf(`specify what to do now, such as: rgpt run follow-up %d "now also write the docs"`, id)}
	}
	if err := c.readPictures(); err != nil {
		return err
	}
	o := control.FollowUp{
		RunID: id, Goal: c.Goal, Description: c.Description, Model: c.Model, Effort: c.Effort, PlanBy: c.PlanBy,
		ApprovePlan: c.ApprovePlan, ApproveRelease: c.ApproveRelease, Key: c.Key, Pictures: c.Pictures, By: caller(),
	}
	if a.server() != "" {
		o.Settings = a.set
	}
	h, err := a.open(cmd.Context(), backend.NeedTemporal|backend.NeedArtifacts)
	if err != nil {
		return err
	}
	defer h.Close()
	created, err := h.FollowUp(cmd.Context(), o)
	if err != nil {
		return err
	}
	a.reportCreation(created)
	return a.reportCreated(cmd.Context(), h, created.Run, created.Fresh, c.wait)
}
