package workflows

import (
	"go.temporal.io/sdk/temporal"

	"github.com/rocketgpt/orchestrator/contract"
)

// The search attributes by which Temporal finds runs and deliberations.
var (
	keyPhase     = temporal.NewSearchAttributeKeyKeyword(contract.AttributePhase)
	keyStatus    = temporal.NewSearchAttributeKeyKeyword(contract.AttributeStatus)
	keyErrorType = temporal.NewSearchAttributeKeyKeyword(contract.AttributeErrorType)
	keyTenant    = temporal.NewSearchAttributeKeyKeyword(contract.AttributeTenant)
	keyRun       = temporal.NewSearchAttributeKeyInt64(contract.AttributeRun)
)
