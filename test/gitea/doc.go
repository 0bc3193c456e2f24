// Package gitea starts a real Gitea for tests: a forge with users, repositories and pull requests
// that a test creates and breaks as it likes. `make gitea` builds the program once for each user.
//
// A server listens only on the loopback interface and keeps its data in a temporary folder, which
// is removed with it, even if the test process is killed. To look for leaks, stop the shared
// server first:
//
//	func TestMain(m *testing.M) { goleak.VerifyTestMain(gitea.Main(m)) }
package gitea
