head -n 1000 "$PROJECT/demo/urls_world.txt" > urls.txt
