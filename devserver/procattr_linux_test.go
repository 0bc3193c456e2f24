package main

import "syscall"

// endWithParent keeps a server from outliving a test run that is killed.
func endWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
