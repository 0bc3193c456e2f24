package docker

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"

	"github.com/rocketgpt/orchestrator/internal/sandbox"
)

// The labels of containers.
const (
	labelOwner  = "dev.rocketgpt.owner"  // the data folder
	labelWorker = "dev.rocketgpt.worker" // the runner
)

// ownerOf returns the label of the containers of a data folder.
func ownerOf(dataDir string) string {
	sum := sha256.Sum256([]byte(dataDir))
	return hex.EncodeToString(sum[:8])
}

// OwnerLabel returns the label, as key=value, of all containers whose worker has the given data folder.
func OwnerLabel(dataDir string) string {
	if data, err := filepath.EvalSymlinks(dataDir); err == nil {
		dataDir = data
	}
	return labelOwner + "=" + ownerOf(dataDir)
}

// kind is everything about a container that is decided when it is created. Containers of one kind
// differ only in the directories behind the links of their slot.
type kind struct {
	Image     string
	Memory    int64
	Processes int64
	CPUs      int64 // in billionths
	Scratch   int64 // size of each directory in memory
	Home, Tmp bool  // on disk
	// WorkspaceBase and HomeBase are true if there is a base below.
	WorkspaceBase, HomeBase bool
	Mounts                  []target
	Trust                   string // digest of the certificates
}

// target is where a command's mount appears.
type target struct {
	Inside   string
	Writable bool
}

// kindOf returns the kind of container for a command.
func (r *Runner) kindOf(c sandbox.Command) kind {
	k := kind{
		Image: c.Image, Memory: c.Limits.MemoryBytes, CPUs: int64(r.options.CPUs * 1e9), Scratch: scratch(c.Limits),
		Home: c.Home != "", Tmp: c.Tmp != "", WorkspaceBase: c.WorkspaceBase != "", HomeBase: c.HomeBase != "",
	}
	for _, m := range c.Mounts {
		k.Mounts = append(k.Mounts, target{m.Inside, m.Writable})
	}
	if k.Memory > 0 {
		k.Memory += helperMemory
	}
	if c.Limits.Processes > 0 {
		k.Processes = int64(c.Limits.Processes) + helperThreads
	}
	if len(c.CACertificates) > 0 {
		sum := sha256.Sum256(c.CACertificates)
		k.Trust = hex.EncodeToString(sum[:])
	}
	return k
}

const (
	// helperMemory and helperThreads are the helper's share, which the kernel counts together with
	// the command's.
	helperMemory  = 32 << 20
	helperThreads = 32
	// maxScratch limits each directory in memory, as in sandboxes on the host.
	maxScratch = 1 << 30
)

// scratch returns the size of each directory in memory.
func scratch(l sandbox.Limits) int64 {
	if l.DiskBytes > 0 && l.DiskBytes < maxScratch {
		return l.DiskBytes
	}
	return maxScratch
}

// key identifies a kind.
func (k kind) key() string {
	return fmt.Sprintf("%+v", k)
}

// slot is a container and the directory through which the host reaches it: its socket, small files,
// and links to the directories of the command that will run in it. The links are followed when the
// container starts, so it can be created before the command is known.
type slot struct {
	dir  string
	id   string // of the container
	made time.Time
}

// The names in a slot's directory.
const (
	linkRoot, linkHome, linkTmp         = "root", "home", "tmp"
	linkRootBase, linkHomeBase          = "root-base", "home-base"
	linkRootWork, linkHomeWork          = "root-work", "home-work"
	linkMount                           = "mount-" // with its number
	controlName                         = "control"
	passwdName, groupName, hostsName    = "passwd", "group", "hosts"
	resolvName, certificatesName, empty = "resolv.conf", "certificates.crt", "empty"
)

// create creates a container of a kind, without starting it.
func (r *Runner) create(ctx context.Context, k kind, certificates []byte) (*slot, error) {
	dir, err := os.MkdirTemp(r.dir, r.worker+"-")
	if err != nil {
		return nil, fmt.Errorf("create a directory for a container: %w", err)
	}
	s := &slot{dir: dir}
	if err := r.fill(s, k, certificates); err != nil {
		_ = os.RemoveAll(dir)
		return nil, err
	}
	mounts, err := r.mounts(s, k)
	if err != nil {
		_ = os.RemoveAll(dir)
		return nil, err
	}
	no := false
	result, err := r.engine.ContainerCreate(ctx, client.ContainerCreateOptions{
		Name: "rgpt-" + filepath.Base(dir),
		Config: &container.Config{
			Image: k.Image, User: fmt.Sprintf("%d:%d", nobody, nobody), Hostname: "sandbox", WorkingDir: "/",
			Entrypoint: append([]string{sandbox.HelperPath}, sandbox.HelperArgs()...), Cmd: []string{}, Env: []string{},
			Healthcheck: &container.HealthConfig{Test: []string{"NONE"}},
			Labels:      map[string]string{labelOwner: r.owner, labelWorker: r.worker},
		},
		HostConfig: &container.HostConfig{
			NetworkMode: "none", ReadonlyRootfs: true, CapDrop: []string{"ALL"}, SecurityOpt: []string{"no-new-privileges"},
			IpcMode: "private", ShmSize: k.Scratch, Init: &no, AutoRemove: true, Mounts: mounts,
			LogConfig:     container.LogConfig{Type: "none"},
			RestartPolicy: container.RestartPolicy{Name: "no"},
			Tmpfs:         r.tmpfs(k),
			Resources:     resources(k),
		},
	})
	if err != nil {
		_ = os.RemoveAll(dir)
		return nil, fmt.Errorf("create a container of the image %s: %w", k.Image, err)
	}
	s.id, s.made = result.ID, time.Now()
	return s, nil
}

// resources returns the limits that the kernel enforces.
func resources(k kind) container.Resources {
	res := container.Resources{NanoCPUs: k.CPUs}
	if k.Memory > 0 {
		res.Memory, res.MemorySwap = k.Memory, k.Memory // no swap
	}
	if k.Processes > 0 {
		res.PidsLimit = &k.Processes
	}
	return res
}

// fill writes the files of a slot, with links to an empty directory where those of the command will
// be.
func (r *Runner) fill(s *slot, k kind, certificates []byte) error {
	passwd, group := sandbox.Identity(nobody, nobody)
	files := map[string][]byte{
		passwdName: passwd, groupName: group, hostsName: []byte("127.0.0.1 localhost sandbox\n::1 localhost\n"),
		resolvName: nil, // the host's name servers are private
	}
	if k.Trust != "" {
		files[certificatesName] = certificates
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(s.dir, name), data, 0o644); err != nil {
			return fmt.Errorf("write a file for a container: %w", err)
		}
	}
	for _, name := range []string{controlName, empty} {
		if err := os.Mkdir(filepath.Join(s.dir, name), 0o755); err != nil {
			return fmt.Errorf("create a directory for a container: %w", err)
		}
	}
	links := []string{linkRoot, linkHome, linkTmp, linkRootBase, linkHomeBase, linkRootWork, linkHomeWork}
	for i := range k.Mounts {
		links = append(links, linkMount+strconv.Itoa(i))
	}
	for _, name := range links {
		if err := os.Symlink(filepath.Join(s.dir, empty), filepath.Join(s.dir, name)); err != nil {
			return fmt.Errorf("create a link for a container: %w", err)
		}
	}
	return nil
}

// mounts returns the mounts of a container.
func (r *Runner) mounts(s *slot, k kind) ([]mount.Mount, error) {
	in := func(name string) string { return filepath.Join(s.dir, name) }
	ro := func(host, inside string) mount.Mount {
		return mount.Mount{Type: mount.TypeBind, Source: host, Target: inside, ReadOnly: true}
	}
	mounts := []mount.Mount{
		ro(r.options.Helper, sandbox.HelperPath), ro(in(controlName), sandbox.ControlDir),
		ro(in(passwdName), "/etc/passwd"), ro(in(groupName), "/etc/group"), ro(in(hostsName), "/etc/hosts"), ro(in(resolvName), "/etc/resolv.conf"),
	}
	if k.Trust != "" {
		mounts = append(mounts, ro(in(certificatesName), sandbox.CertificatesPath))
	}
	for _, d := range []struct {
		wanted, base               bool
		upper, lower, work, inside string
	}{
		{true, k.WorkspaceBase, linkRoot, linkRootBase, linkRootWork, sandbox.Workspace},
		{k.Home, k.HomeBase, linkHome, linkHomeBase, linkHomeWork, sandbox.Home},
	} {
		switch {
		case !d.wanted:
		case d.base:
			overlay, err := overlay(in(d.upper), in(d.lower), in(d.work), d.inside)
			if err != nil {
				return nil, err
			}
			mounts = append(mounts, overlay)
		default:
			mounts = append(mounts, mount.Mount{Type: mount.TypeBind, Source: in(d.upper), Target: d.inside})
		}
	}
	if k.Tmp {
		mounts = append(mounts, mount.Mount{Type: mount.TypeBind, Source: in(linkTmp), Target: "/tmp"})
	}
	for i, m := range k.Mounts {
		mounts = append(mounts, mount.Mount{Type: mount.TypeBind, Source: in(linkMount + strconv.Itoa(i)), Target: m.Inside, ReadOnly: !m.Writable})
	}
	return mounts, nil
}

// overlay mounts a directory above a base. It stores its metadata as the overlays of sandboxes on the
// host do, so both can use its layers.
func overlay(upper, lower, work, inside string) (mount.Mount, error) {
	if strings.ContainsAny(upper, ":,\\") { // as are the others, which are beside it
		return mount.Mount{}, fmt.Errorf("%w: the data folder's path %q cannot be part of an overlay, because it contains a colon, comma or backslash", sandbox.ErrInvalid, filepath.Dir(upper))
	}
	return mount.Mount{Type: mount.TypeVolume, Target: inside, VolumeOptions: &mount.VolumeOptions{
		NoCopy: true,
		DriverConfig: &mount.Driver{Name: "local", Options: map[string]string{
			"type": "overlay", "device": "overlay", "o": fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s,userxattr", lower, upper, work),
		}},
	}}, nil
}

// tmpfs returns the directories in memory.
func (r *Runner) tmpfs(k kind) map[string]string {
	size := "size=" + strconv.FormatInt(k.Scratch, 10)
	dirs := map[string]string{"/var/tmp": "rw,nosuid,nodev,exec,mode=1777," + size}
	if !k.Tmp {
		dirs["/tmp"] = "rw,nosuid,nodev,exec,mode=1777," + size
	}
	if !k.Home {
		dirs[path.Clean(sandbox.Home)] = fmt.Sprintf("rw,nosuid,nodev,exec,mode=0755,uid=%d,gid=%d,%s", nobody, nobody, size)
	}
	return dirs
}

// aim points the links of a slot at the directories of a command.
func (s *slot) aim(c sandbox.Command) error {
	targets := map[string]string{linkRoot: c.Root, linkHome: c.Home, linkTmp: c.Tmp}
	if c.WorkspaceBase != "" {
		targets[linkRootBase], targets[linkRootWork] = c.WorkspaceBase, workDir(c.Root)
	}
	if c.HomeBase != "" {
		targets[linkHomeBase], targets[linkHomeWork] = c.HomeBase, workDir(c.Home)
	}
	for i, m := range c.Mounts {
		targets[linkMount+strconv.Itoa(i)] = m.Host
	}
	for name, target := range targets {
		if target == "" {
			continue
		}
		link := filepath.Join(s.dir, name)
		if err := os.Remove(link); err != nil {
			return fmt.Errorf("aim a link of a container: %w", err)
		}
		if err := os.Symlink(target, link); err != nil {
			return fmt.Errorf("aim a link of a container: %w", err)
		}
	}
	return nil
}

// workDir is the directory in which an overlay prepares its changes; see sandbox.Command.WorkspaceBase.
func workDir(upper string) string {
	return filepath.Join(filepath.Dir(upper), sandbox.OverlayPrefix+filepath.Base(upper))
}
