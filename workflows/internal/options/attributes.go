package options

import (
	"go.temporal.io/sdk/temporal"

	"github.com/rocketgpt/orchestrator/contract"
)

// The search attributes by which Temporal finds runs and deliberations.
var (
	KeyPhase     = temporal.NewSearchAttributeKeyKeyword(contract.AttributePhase)
	KeyStatus    = temporal.NewSearchAttributeKeyKeyword(contract.AttributeStatus)
	KeyErrorType = temporal.NewSearchAttributeKeyKeyword(contract.AttributeErrorType)
	KeyTenant    = temporal.NewSearchAttributeKeyKeyword(contract.AttributeTenant)
	KeyRun       = temporal.NewSearchAttributeKeyInt64(contract.AttributeRun)
)
