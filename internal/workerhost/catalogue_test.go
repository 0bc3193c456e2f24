package workerhost

import (
	"context"
	"log/slog"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/activities"
	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/await"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/model"
	"github.com/rocketgpt/orchestrator/internal/setup"
	"github.com/rocketgpt/orchestrator/internal/store/catalogue"
	"github.com/rocketgpt/orchestrator/internal/storetest"
)

func TestAWorkerUsesThePricesThatWereStored(t *testing.T) {
	t.Parallel()
	cfg := config.Default()
	models, err := setup.Model(cfg)
	require.NoError(t, err)
	t.Cleanup(models.Close)
	choice := contract.ModelChoice{Provider: "openai", Model: "of-tomorrow"}
	_, known := models.Entry(choice)
	require.False(t, known)

	db := storetest.New(t)
	require.NoError(t, catalogue.New(db).Update(t.Context(), model.Catalogue{{Provider: "openai", Model: "of-tomorrow", PriceIn: 7}}, "ada"))
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	done.Go(func() {
		_ = followCatalogue(ctx, &activities.Activities{Store: db, Model: models}, cfg, slog.New(slog.DiscardHandler))
	})
	t.Cleanup(func() { cancel(); done.Wait() })
	await.Until(t, "the price is known", func() bool { _, known := models.Entry(choice); return known })
	e, _ := models.Entry(choice)
	require.InDelta(t, 7, e.PriceIn, 0)
}
