package sandbox

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// BenchmarkRunTrue tells what a sandbox costs over the bare command.
func BenchmarkRunTrue(b *testing.B) {
	b.Run("plain", func(b *testing.B) {
		for b.Loop() {
			require.NoError(b, exec.Command("true").Run())
		}
	})
	for _, variant := range []Variant{Bubblewrap, Namespaces} {
		b.Run(string(variant), func(b *testing.B) {
			p, err := runners[variant]()
			require.NoError(b, err)
			root := b.TempDir()
			for b.Loop() {
				res, err := p.Run(b.Context(), Command{Root: root, Args: []string{"true"}})
				require.NoError(b, err)
				require.True(b, res.OK())
			}
		})
	}
}
