package rerank_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/rocketgpt/orchestrator/internal/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(storetest.Main(m)) }
