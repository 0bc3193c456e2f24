package workerhost

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/rocketgpt/orchestrator/internal/sandbox"
	"github.com/rocketgpt/orchestrator/internal/storetest"
)

func TestMain(m *testing.M) {
	sandbox.MaybeRunHelper()
	goleak.VerifyTestMain(storetest.Main(m))
}
