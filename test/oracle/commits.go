package oracle

import "github.com/rocketgpt/orchestrator/internal/eval/commits"

// The commits to play, which internal/eval/commits reads and expresses as calls of tools.
type (
	// Commit is a commit of a table and its properties.
	Commit = commits.Commit
	// Script is a commit as the turns of a builder.
	Script = commits.Script
	// Call is one call of a tool.
	Call = commits.Call
	// OwnTests has the results of the tests that a commit added or changed.
	OwnTests = commits.OwnTests
)

// maxDiffers is the maximum number of differing paths to report.
const maxDiffers = 20
