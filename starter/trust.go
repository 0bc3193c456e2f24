package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/setup"
	"github.com/rocketgpt/orchestrator/internal/terminal"
)

func newTrust(a *app) *cobra.Command {
	var remove bool
	cmd := &cobra.Command{
		Use: "trust [DIRECTORY]", Short: "Trust a data folder, or the configuration in a directory",
		Long: `Trusts the current contents of rgpt.yaml and rgpt.local.yaml in a directory (default: the
current one) as the operator's own configuration. rgpt dev, and commands that you run in
that directory, use all settings in these files; from untrusted files they accept only the
settings that a repository may set, and reject the rest. A file must be trusted again after each change.

For a data folder (.rgpt), it records that the folder is yours: a data folder that was
unpacked from an archive or moved here is not used until you trust it.

Files given with --config, and the base configuration file, are always trusted.`,
		Example: `  rgpt trust
  rgpt trust --remove ~/projects/tried`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			dir := "."
			if len(args) == 1 {
				dir = args[0]
			}
			if setup.IsDataDir(dir) && !remove {
				if err := setup.TrustDataDir(a.trusted(), dir); err != nil {
					return err
				}
				fmt.Fprintf(a.out, "Trusted: the data folder %s\n", terminal.Clean(dir))
				return nil
			}
			if remove {
				if err := a.trusted().Remove(append(configNames(dir), setup.OwnerFile(dir))...); err != nil {
					return err
				}
				fmt.Fprintf(a.out, "The configuration in %s is no longer trusted.\n", terminal.Clean(dir))
				return nil
			}
			files := configFiles(dir)
			if len(files) == 0 {
				return fault.New(contract.ClassConfig, contract.CodeInvalidConfig, "nothing to trust: found no %s in %s", config.FileName, dir)
			}
			if _, err := config.Load(config.Sources{Dir: dir, Env: a.env}); err != nil {
				return err
			}
			if err := a.trusted().Add(files...); err != nil {
				return err
			}
			for _, file := range files {
				fmt.Fprintf(a.out, "Trusted in its current state: %s\n", terminal.Clean(file))
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&remove, "remove", false, "stop trusting the configuration or the data folder")
	return cmd
}

// configNames returns the paths of the possible configuration files in a directory.
func configNames(dir string) []string {
	return []string{filepath.Join(dir, config.FileName), filepath.Join(dir, config.LocalName)}
}

// configFiles returns the paths of the existing configuration files in a directory.
func configFiles(dir string) (found []string) {
	for _, file := range configNames(dir) {
		if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() {
			found = append(found, file)
		}
	}
	return found
}
