package policy_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/rocketgpt/orchestrator/internal/gate/policy"
)

func TestMain(m *testing.M) {
	policy.MaybeRunHelper()
	goleak.VerifyTestMain(m)
}
