// rgpt-sandbox is the first process of every sandbox. The worker could start itself instead, but
// most of a sandbox's cost is the start of this process, and a small program starts in a tenth of
// the time.
package main

import (
	"fmt"
	"os"

	"github.com/rocketgpt/orchestrator/internal/sandbox"
)

func main() {
	sandbox.MaybeRunHelper()
	fmt.Fprintln(os.Stderr, "rgpt-sandbox is started by rgpt-worker and does nothing on its own")
	os.Exit(2)
}
