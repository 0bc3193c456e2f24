package pgcluster

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// socketSetting is the setting for the directories of the server's Unix sockets.
const socketSetting = "unix_socket_directories"

// probeTime is the time within which a connection over a socket of our own must be made.
const probeTime = 5 * time.Second

// socketDir returns the directory of the Unix socket of the cluster in dir, or an empty string if
// clients could not use one. It is the cluster's directory, which only the server's user can enter;
// PostgreSQL does not start in any other.
//
// A path that is too long for a socket gets none, instead of one in a shared directory such as
// /tmp, where other users could put something under its name first. Some file systems, such as
// folders that a virtual machine shares with its host, have no sockets at all, and the server would
// not start. Both are found out with a socket whose name is as long as that of the server.
func socketDir(ctx context.Context, dir string, port int) string {
	if strings.Contains(dir, ",") { // separates several hosts in a URL
		return ""
	}
	file := filepath.Join(dir, fmt.Sprintf(".s.PROBE.%d", port))
	if err := os.Remove(file); err != nil && !os.IsNotExist(err) { // left by a process that was killed
		return ""
	}
	var config net.ListenConfig
	l, err := config.Listen(ctx, "unix", file)
	if err != nil {
		return ""
	}
	defer l.Close() // removes the file
	conn, err := (&net.Dialer{Timeout: probeTime}).DialContext(ctx, "unix", file)
	if err != nil {
		return ""
	}
	conn.Close()
	return dir
}

// quoted returns a directory as an element of a list in a setting; empty if there is none.
func quoted(dir string) string {
	if dir == "" {
		return ""
	}
	return `"` + strings.ReplaceAll(dir, `"`, `""`) + `"`
}
