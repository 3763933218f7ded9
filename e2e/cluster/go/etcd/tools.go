//go:build tools

// Package etcd pins the store of the embedded cluster.
package etcd

import (
	_ "go.etcd.io/etcd/server/v3"
)
