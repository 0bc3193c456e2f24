package await

import "flag"

// parallelTests is how many tests of a package run at once if they mostly wait.
const parallelTests = "8"

// RunsManyAtOnce lets more tests of a package run at once than there are processors, for
// packages whose tests mostly wait. Call it in TestMain; the flag -parallel overrides it.
func RunsManyAtOnce() {
	if err := flag.Set("test.parallel", parallelTests); err != nil {
		panic(err) //nolint:forbidigo // not in a test binary
	}
}
