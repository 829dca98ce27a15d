cp "$PROJECT/demo/urls_world.txt" urls.txt
mkdir -p /usr/lib/mysql/plugin/urlpack || true
