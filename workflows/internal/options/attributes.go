package options

import (
	"go.temporal.io/sdk/temporal"

	"github.com/rocketgpt/orchestrator/contract"
)

// The search attributes for finding runs and deliberations in Temporal.
var (
	KeyPhase     = temporal.NewSearchAttributeKeyKeyword(contract.AttributePhase)
	KeyStatus    = temporal.NewSearchAttributeKeyKeyword(contract.AttributeStatus)
	KeyErrorType = temporal.NewSearchAttributeKeyKeyword(contract.AttributeErrorType)
	KeyTenant    = temporal.NewSearchAttributeKeyKeyword(contract.AttributeTenant)
	KeyRun       = temporal.NewSearchAttributeKeyInt64(contract.AttributeRun)
)
