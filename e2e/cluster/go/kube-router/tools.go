//go:build tools

// Package kuberouter pins what enforces network policies in the embedded cluster.
package kuberouter

import (
	_ "github.com/cloudnativelabs/kube-router/v2/cmd/kube-router"
)
