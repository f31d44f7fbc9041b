"""Data: the files of a folder that the host's own tools execute or obey, each with the reason.

`check`, `explain` and the gate of a layer share this one list.

A pattern is a path of one or more parts that matches at any depth, with all that lies beneath it; in a part, `*` and
`?` are wildcards. Letter case counts nowhere: on some file systems it does not.
"""

from __future__ import annotations

from crabpot.frozen import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """Some files, and what the host would do with them."""

    patterns: tuple[str, ...]
    reason: str


def _rule(reason: str, patterns: str) -> Rule:
    return Rule(patterns=tuple(patterns.split()), reason=reason)


# Executed or obeyed without being asked: by a program that a person starts for something else, or by one that watches.
UNASKED: tuple[Rule, ...] = (
    _rule(
        "git runs hooks, filters, monitors and programs that its own files name",
        ".git/hooks .git/config .git/config.worktree .git/info .git/modules .gitmodules .gitconfig "
        ".githooks .husky .lefthook lefthook.yml lefthook.yaml .lefthook.yml .lefthook.yaml .overcommit.yml",
    ),
    _rule(
        "pre-commit runs its hooks at every commit",
        ".pre-commit-config.yaml .pre-commit-config.yml .pre-commit-hooks.yaml",
    ),
    _rule(
        "a shell or a version manager obeys it on entering the folder",
        ".envrc .env .autoenv.zsh .autoenv .mise.toml mise.toml .mise .config/mise .mise.local.toml "
        "mise.local.toml .tool-versions .rtx.toml .nvmrc .node-version .python-version .ruby-version "
        ".java-version .sdkmanrc .terraform-version devenv.nix .devenv .flox .devbox",
    ),
    _rule(
        "an editor runs its tasks, or programs that its settings name, when the folder is opened",
        ".vscode *.code-workspace .idea *.iml .fleet .zed .nova .sublime *.sublime-project .vim .nvim .exrc "
        ".vimrc .nvimrc .nvim.lua .lvimrc .local.vimrc .dir-locals.el .dir-locals-2.el .projectile .helix .kakrc "
        ".theia .settings .classpath .vs *.csproj.user",
    ),
    _rule(
        "a container of the editor starts with its mounts and commands",
        ".devcontainer .devcontainer.json .gitpod.yml",
    ),
    _rule(
        "an agent program on the host obeys it, and starts the servers and hooks that it names",
        ".claude .claude.json CLAUDE.md CLAUDE.local.md AGENTS.md AGENTS.override.md AGENT.md GEMINI.md .mcp.json "
        "mcp.json .cursor .cursorrules .cursorignore .codex .gemini .windsurf .windsurfrules .clinerules .cline "
        ".roo .roorules .roomodes .continue .aider.conf.yml .aider.model.settings.yml .goose .goosehints "
        ".opencode opencode.json opencode.jsonc .kiro .amazonq .augment .junie .github/copilot-instructions.md "
        ".github/instructions .github/prompts .github/agents .openclaw .crush.json crush.json .qwen .amp",
    ),
    _rule("Crabpot would obey it if it were named", "crabpot.json5 .crabpot"),
    _rule(
        "a CI service runs it with the repository's secrets as soon as it is pushed",
        ".github/workflows .github/actions .gitlab-ci.yml .gitlab .circleci .travis.yml .drone.yml "
        ".woodpecker.yml .woodpecker .buildkite azure-pipelines.yml .azure-pipelines appveyor.yml .appveyor.yml "
        "Jenkinsfile bitbucket-pipelines.yml .cirrus.yml .forgejo .gitea .semaphore .teamcity cloudbuild.yaml "
        "buildspec.yml .github/dependabot.yml renovate.json .renovaterc .renovaterc.json netlify.toml vercel.json "
        "fly.toml render.yaml app.yaml",
    ),
    _rule("Python executes it at every start", "*.pth sitecustomize.py usercustomize.py __editable__*.py pyvenv.cfg"),
    _rule("pytest, and editors that list tests, execute it", "conftest.py"),
    _rule(
        "pip, uv or conda obeys it: it can name another index",
        "pip.conf pip.ini uv.toml .pypirc .condarc condarc",
    ),
    _rule(
        "its programs are executed in place of the system's",
        ".venv venv virtualenv __pypackages__ .pixi .tox .nox node_modules/.bin .direnv .bundle/config vendor/bin "
        "bin/activate",
    ),
    _rule("Python prefers its bytecode to the source that a person reads", "__pycache__ *.pyc *.pyo"),
    _rule("Python imports it in place of a system module", "*.so *.dylib *.dll *.pyd"),
    _rule(
        "the package manager obeys it: it can name registries, shells and programs",
        ".npmrc .yarnrc .yarnrc.yml .yarn .pnpmfile.cjs .pnpmfile.mjs pnpmfile.js bunfig.toml .bowerrc",
    ),
    _rule(
        "cargo, and editors that check Rust, execute or obey it",
        ".cargo build.rs rust-toolchain rust-toolchain.toml rust-analyzer.toml .rust-analyzer.toml clippy.toml "
        ".rustfmt.toml",
    ),
    _rule(
        "Go obeys it: it can name another tool chain or proxy",
        "go.env .golangci.yml .golangci.yaml .golangci.toml",
    ),
    _rule(
        "the build tool, or an editor that imports the project, executes or obeys it",
        ".mvn mvnw gradlew gradle/wrapper gradle.properties init.gradle build.gradle build.gradle.kts "
        "settings.gradle settings.gradle.kts buildSrc build.sbt project/plugins.sbt project/build.properties "
        ".sbtopts .jvmopts .bazelrc .bazelversion tools/bazel Directory.Build.props Directory.Build.targets "
        "Directory.Packages.props nuget.config global.json .config/dotnet-tools.json Package.swift mix.exs "
        "CMakePresets.json CMakeUserPresets.json .bsp .metals",
    ),
    _rule("Ruby obeys or executes it", ".irbrc .pryrc .rspec .rubocop.yml .bundle .gemrc Gemfile"),
    _rule(
        "a JavaScript tool, or an editor's plugin of it, executes it",
        ".eslintrc .eslintrc.js .eslintrc.cjs .eslintrc.json .eslintrc.yml .eslintrc.yaml eslint.config.* "
        ".prettierrc .prettierrc.* prettier.config.* .stylelintrc .stylelintrc.* stylelint.config.* "
        "babel.config.* .babelrc .babelrc.* postcss.config.* tailwind.config.* vite.config.* vitest.config.* "
        "vitest.workspace.* webpack.config.* rollup.config.* jest.config.* .mocharc.* .lintstagedrc "
        ".lintstagedrc.* lint-staged.config.* commitlint.config.* .commitlintrc .commitlintrc.* next.config.* "
        "nuxt.config.* svelte.config.* astro.config.* metro.config.* playwright.config.* cypress.config.* "
        "biome.json biome.jsonc",
    ),
    _rule(
        "a Python linter or type checker, or an editor's plugin of it, executes it",
        ".pylintrc pylintrc mypy.ini .mypy.ini .flake8",
    ),
    _rule(
        "a debugger or an interpreter executes it at its start in the folder",
        ".gdbinit .lldbinit .pythonrc .pythonrc.py .Rprofile .Renviron .sqliterc .psqlrc .inputrc .screenrc .tmux.conf",
    ),
    _rule(
        "a shell executes it at its start, where the folder is a home",
        ".bashrc .bash_profile .bash_login .bash_logout .profile .zshrc .zshenv .zprofile .zlogin .kshrc .cshrc "
        ".login .config/fish .xinitrc .xprofile .xsession .pam_environment",
    ),
    _rule(
        "the desktop starts it, or shows it as something else",
        ".config/autostart *.desktop autorun.inf .directory",
    ),
    _rule("the system starts it", ".config/systemd *.service *.timer crontab .crontab"),
    _rule("a credential or the trust in a host is read from it", ".ssh .netrc _netrc .aws .kube .docker .gnupg"),
    _rule(
        "Terraform or its language server executes or obeys it",
        ".terraformrc terraform.rc .terraform .terraform.lock.hcl",
    ),
    _rule("Ansible obeys it, and executes what it names", "ansible.cfg"),
    _rule(
        "a task runner that watches the folder executes it",
        ".watchmanconfig .air.toml nodemon.json .nodemonrc Procfile.dev Tiltfile skaffold.yaml",
    ),
    _rule(
        "Windows or macOS executes or obeys it when the folder is shown",
        "desktop.ini *.lnk *.url *.scf *.command",
    ),
    _rule("nix or direnv evaluates it on entering the folder", "shell.nix default.nix flake.nix flake.lock"),
)

# Executed once a person runs the program that reads it.
ASKED: tuple[Rule, ...] = (
    _rule("make runs its targets", "Makefile GNUmakefile *.mk"),
    _rule("its scripts run on install and by name", "package.json composer.json"),
    _rule(
        "it decides which packages an install brings",
        "package-lock.json npm-shrinkwrap.json yarn.lock pnpm-lock.yaml bun.lock bun.lockb Cargo.lock poetry.lock "
        "uv.lock Pipfile Pipfile.lock Gemfile.lock go.sum composer.lock requirements*.txt constraints*.txt",
    ),
    _rule(
        "a build or an install of the project executes it or obeys it",
        "setup.py setup.cfg pyproject.toml hatch_build.py Cargo.toml go.mod go.work CMakeLists.txt *.cmake "
        "meson.build meson_options.txt configure configure.ac build.ninja pom.xml *.csproj *.fsproj *.vbproj "
        "*.sln *.props *.targets *.gemspec Rakefile justfile .justfile Taskfile.yml Taskfile.yaml "
        "noxfile.py tox.ini tasks.py fabfile.py dodo.py SConstruct SConscript WORKSPACE MODULE.bazel BUILD "
        "BUILD.bazel *.bzl Earthfile Brewfile Vagrantfile",
    ),
    _rule(
        "a container engine builds or starts it",
        "Dockerfile Dockerfile.* *.dockerfile Containerfile .dockerignore compose.yaml compose.yml "
        "docker-compose.yaml docker-compose.yml docker-compose.*.yml docker-bake.hcl",
    ),
    _rule("it is applied to a cluster or a cloud", "*.tf *.tfvars kustomization.yaml Chart.yaml"),
    _rule("a test runner reads it", "pytest.ini"),
)
