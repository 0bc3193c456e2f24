package config_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rocketgpt/orchestrator/internal/config"
)

func TestSizesAreReadExactly(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]config.Size{
		"0": 0, "17": 17, "64KiB": 64 << 10, "10MB": 10_000_000, "1.5GiB": 3 << 29, "2 tib": 2 << 40, "5B": 5, "1kb": 1000,
	} {
		got, err := config.ParseSize(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{"", "KiB", "1.2B", "x", "1e3", "1/2", "0x10", "99999999TiB", "--1", "1.2.3KiB", "9e999999999"} {
		_, err := config.ParseSize(text)
		require.Error(t, err, text)
	}
}

func TestMoneyIsReadExactly(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]config.MicroUSD{
		"0": 0, "5": 5_000_000, "0.1": 100_000, "0.000001": 1, "2.50": 2_500_000, "-1": -1_000_000,
	} {
		got, err := config.ParseUSD(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{"", "$5", "0.0000001", "1e2", "five", "10000000000000"} {
		_, err := config.ParseUSD(text)
		require.Error(t, err, text)
	}
}

func TestWhatIsWrittenIsReadBack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64Range(-1<<62, 1<<62).Draw(t, "n")
		size, err := config.ParseSize(config.Size(n).String())
		require.NoError(t, err)
		require.Equal(t, n, size.Int64())
		money, err := config.ParseUSD(config.MicroUSD(n).String())
		require.NoError(t, err)
		require.Equal(t, n, money.Int64())
	})
}
