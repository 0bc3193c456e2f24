package artifact_test

import (
	"crypto/rand"
	"fmt"
	"testing"

	"github.com/rocketgpt/orchestrator/internal/artifact"
)

func BenchmarkPut(b *testing.B) {
	for _, size := range []int{1 << 10, 64 << 10, 1 << 20} {
		for _, sync := range []bool{true, false} {
			b.Run(fmt.Sprintf("size=%dKiB/sync=%t", size>>10, sync), func(b *testing.B) {
				s, err := artifact.Open(b.Context(), "", b.TempDir(), artifact.WithSync(sync))
				if err != nil {
					b.Fatal(err)
				}
				data := make([]byte, size)
				b.SetBytes(int64(size))
				for b.Loop() {
					_, _ = rand.Read(data[:32])
					if _, err := s.Put(b.Context(), data); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
